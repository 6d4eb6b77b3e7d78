"""Corruptions of images: every module of this folder registers its own."""

from holdfast.registry import import_entries

import_entries(__name__)
