#!/bin/sh
# Use the wheel that is installed in package/ as a stranger would: called in build/ by `make package`.
set -eu
bin=$PWD/package/bin
"$bin/python" -c 'import holdfast; assert "/build/package/" in holdfast.__file__, holdfast.__file__'
"$bin/holdfast" --version
rm -rf elsewhere && mkdir elsewhere && cd elsewhere
"$bin/python" ../../docs/play_pages.py ../../README.md ../../docs/tutorials/first_adaptation.md
"$bin/holdfast" list methods > methods.txt
# The recorded traces are no part of the wheel, and the command says where they are.
if "$bin/holdfast" conformance 2> refused.txt; then exit 1; fi
grep -q "has no folder traces" refused.txt
"$bin/holdfast" conformance --golden ../../tests/conformance/golden --only tent > conformance.txt
echo "The wheel works: README, the first tutorial, list and conformance"
