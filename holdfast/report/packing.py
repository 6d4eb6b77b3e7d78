"""Text compressed for a page: printable, and unpacked by the browser when it is needed."""

from __future__ import annotations

import base64
import gzip

# That of base64.b85encode, except for the sign that could begin a tag.
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;/=>?@^_`{|}~"


def packed(text: str) -> str:
    """Return a text compressed, for a script element whose text the page gives to `unpacked`.

    >>> len(packed("a" * 10_000)) < 100, "<" in packed("<script>")
    (True, False)
    """
    return base64.b85encode(gzip.compress(text.encode(), mtime=0)).decode().replace("<", "/")


UNPACK = """
const values = new Uint8Array(128);
[...ALPHABET].forEach((sign, value) => { values[sign.charCodeAt(0)] = value; });
const unpacked = async (text) => {
  const view = new DataView(new ArrayBuffer(4 * Math.ceil(text.length / 5)));
  for (let at = 0; at < text.length; at += 5) {
    let word = 0;
    for (let place = at; place < at + 5; place++) {
      word = 85 * word + (place < text.length ? values[text.charCodeAt(place)] : 84);
    }
    view.setUint32(4 * at / 5, word);
  }
  const bytes = new Uint8Array(view.buffer, 0, Math.floor(4 * text.length / 5));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
""".replace("ALPHABET", repr(ALPHABET))
