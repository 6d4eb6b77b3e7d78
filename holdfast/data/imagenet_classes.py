"""The classes of ImageNet, and which of them its natural variants have."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def imagenet_wnids() -> tuple[str, ...]:
    """Return the WordNet identifiers of the 1000 classes, sorted, which is the order of a network's outputs.

    >>> len(imagenet_wnids()), imagenet_wnids()[340]
    (1000, 'n02391049')
    """
    return tuple((Path(__file__).parent / "imagenet_wnids.txt").read_text().split())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split())


# Hendrycks et al., ICCV 2021: 200 classes.
IMAGENET_R = _numbers("""
1 2 4 6 8 9 11 13 22 23 26 29 31 39 47 63 71 76 79 84 90 94 96 97 99 100 105 107 113 122 125 130 132 144 145 147 148
150 151 155 160 161 162 163 171 172 178 187 195 199 203 207 208 219 231 232 234 235 242 245 247 250 251 254 259 260
263 265 267 269 276 277 281 288 289 291 292 293 296 299 301 308 309 310 311 314 315 319 323 327 330 334 335 337 338
340 341 344 347 353 355 361 362 365 366 367 368 372 388 390 393 397 401 407 413 414 425 428 430 435 437 441 447 448
457 462 463 469 470 471 472 476 483 487 515 546 555 558 570 579 583 587 593 594 596 609 613 617 621 629 637 657 658
701 717 724 763 768 774 776 779 780 787 805 812 815 820 824 833 847 852 866 875 883 889 895 907 928 931 932 933 934
936 937 943 945 947 948 949 951 953 954 957 963 965 967 980 981 983 988
""")
# Hendrycks et al., CVPR 2021: 200 classes.
IMAGENET_A = _numbers("""
6 11 13 15 17 22 23 27 30 37 39 42 47 50 57 70 71 76 79 89 90 94 96 97 99 105 107 108 110 113 124 125 130 132 143
144 150 151 207 234 235 254 277 283 287 291 295 298 301 306 307 308 309 310 311 313 314 315 317 319 323 324 326 327
330 334 335 336 347 361 363 372 378 386 397 400 401 402 404 407 411 416 417 420 425 428 430 437 438 445 456 457 461
462 470 472 483 486 488 492 496 514 516 528 530 539 542 543 549 552 557 561 562 569 572 573 575 579 589 606 607 609
614 626 627 640 641 642 643 658 668 677 682 684 687 701 704 719 736 746 749 752 758 763 765 768 773 774 776 779 780
786 792 797 802 803 804 813 815 820 823 831 833 835 839 845 847 850 859 862 870 879 880 888 890 897 900 907 913 924
932 933 934 937 943 945 947 951 954 956 957 959 971 972 980 981 984 986 987 988
""")
# Marsden et al., WACV 2024: the 109 classes of DomainNet that are one class of ImageNet each (Rusak et al., 2022).
_D109 = """
aircraft_carrier:403 ambulance:407 ant:310 backpack:414 banana:954 barn:425 basket:790 basketball:430 bathtub:435
bed:831 bee:309 belt:785 bench:703 binoculars:447 bottlecap:455 bowtie:457 broccoli:937 broom:462 bucket:463
camel:354 candle:470 cannon:471 canoe:472 castle:483 cello:486 church:497 compass:635 crocodile:49 dishwasher:534
door:799 dragon:48 drill:740 duck:103 dumbbell:543 ear:998 envelope:549 eraser:767 fan:545 feather:552 flamingo:130
frying_pan:567 hammer:587 hat:515 hedgehog:334 hockey_puck:746 hot_air_balloon:417 hourglass:604 kangaroo:104
knee:615 knife:623 lantern:607 lighter:626 lighthouse:437 lipstick:629 mailbox:637 microphone:650 microwave:651
mushroom:947 nail:677 necklace:679 ocean:628 oven:544 owl:24 paintbrush:696 parachute:701 penguin:145 pillow:721
pineapple:953 pizza:963 purse:748 remote_control:761 saw:491 saxophone:776 scorpion:71 screwdriver:784 sheep:349
shovel:792 sleeping_bag:797 snail:113 snorkel:801 soccer_ball:805 sock:806 speedboat:814 spoon:910 squirrel:335
stethoscope:823 stop_sign:919 stove:827 strawberry:949 submarine:833 swing_set:843 syringe:845 t-shirt:610
teapot:849 teddy-bear:850 television:851 tent:672 tiger:292 toaster:859 tractor:866 traffic_light:920 train:466
trombone:875 trumpet:513 umbrella:879 vase:883 violin:889 washing_machine:897 zebra:340
"""
IMAGENET_D109 = {name: int(index) for name, index in (word.split(":") for word in _D109.split())}
