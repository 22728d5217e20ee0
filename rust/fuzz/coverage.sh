#!/usr/bin/env bash
# Line coverage of the core by its unit and integration tests, the packed fuzz corpus among them: a line a file.
# Needs the nightly toolchain with the component llvm-tools.
set -euo pipefail
cd "$(dirname "$0")/../.."

toolchain=${MAGICBYTE_NIGHTLY:-nightly}
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/coverage")
tools=$(rustc "+$toolchain" --print sysroot)/lib/rustlib/$(rustc "+$toolchain" -vV | sed -n 's/^host: //p')/bin
export CARGO_TARGET_DIR=$folder RUSTFLAGS=-Cinstrument-coverage CARGO_INCREMENTAL=0
rm -rf "$folder/profiles"
tests=(test -p magicbyte --all-features --lib --test core)
# Only the tests are to write profiles, not the build.
LLVM_PROFILE_FILE=/dev/null cargo "+$toolchain" "${tests[@]}" --no-run --message-format=json >"$folder.json"
LLVM_PROFILE_FILE=$folder/profiles/%p-%m.profraw cargo "+$toolchain" "${tests[@]}" -- -q
mapfile -t objects < <(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$folder.json")
"$tools/llvm-profdata" merge -sparse "$folder/profiles" -o "$folder/all.profdata"
flags=("-instr-profile=$folder/all.profdata" "${objects[0]}")
for object in "${objects[@]:1}"; do flags+=(-object "$object"); done
"$tools/llvm-cov" report "${flags[@]}" --ignore-filename-regex='/(\.cargo|\.rustup|rustc|tests|fuzz)/|/tests\.rs$' |
  awk 'NR == 1 || /^[a-z].*\.rs|^TOTAL/ { print $1, "lines", $8, "missed", $9, $10 }'
"$tools/llvm-cov" show "${flags[@]}" --ignore-filename-regex='/(\.cargo|\.rustup|rustc|tests|fuzz)/|/tests\.rs$' >"$folder/lines.txt"
echo "line by line: $folder/lines.txt"
