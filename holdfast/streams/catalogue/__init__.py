"""The registered streams, one file each; `holdfast.streams` imports them all."""
