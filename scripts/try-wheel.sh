#!/usr/bin/env bash
# A wheel as a user has it: an empty environment, the wheel alone, and what the README shows first. Needs no network beyond
# what pip needs for click.
set -euo pipefail

wheel=${1:?a wheel to try}
data=$(cd "$(dirname "$0")/.." && pwd)/tests/data/kafka-logs
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip install -q "$wheel"
cd "$place"  # where no checkout can be imported by chance
export PATH="$place/venv/bin:$PATH"

magicbyte --version
magicbyte inspect "$data" > inspect.txt
magicbyte dump "$data/orders-0" --from-offset 40 -n 3 --json
magicbyte verify "$data" --no-notes
magicbyte kafka-dump-log --offsets-decoder --files "$data/__consumer_offsets-0/00000000000000000000.log" > offsets.txt
python - "$data" << 'PYTHON'
import sys
from importlib.metadata import distribution
from importlib.resources import files

import magicbyte as mb

log = mb.Log(sys.argv[1])
print(sum(1 for _ in log.records()), "records in", log)
assert mb.Log(sys.argv[1]).scan(["offset"]).count() > 0
assert (files("magicbyte") / "py.typed").is_file() and (files("magicbyte") / "_core.pyi").is_file()
licences = {str(path) for path in distribution("magicbyte").files or () if "licenses" in str(path)}
assert any(path.endswith("THIRD-PARTY.md") for path in licences), licences
PYTHON
du -h "$wheel" | cut -f1
