#!/usr/bin/env bash
# Python tests on an extension built with AddressSanitizer, its C codecs included: asan.sh PYTHON [PYTEST ARGUMENTS]
#
# The interpreter itself is not instrumented, so the runtime is preloaded: gcc's, which serves rustc's instrumentation, too,
# and there may be only one in a process. CPython does not free all at its end, so leaks are not looked for.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=$(realpath -s "$1")
shift
toolchain=${MAGICBYTE_NIGHTLY:-nightly}
target=$(rustc "+$toolchain" -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-target}/asan
export CARGO_TARGET_DIR=$folder
export RUSTFLAGS="-Zsanitizer=address"
export CFLAGS="-fsanitize=address -fno-omit-frame-pointer -g" # the codecs written in C
export PYO3_PYTHON=$python
cargo "+$toolchain" build -p magicbyte-python --profile quick --target "$target"

# A package beside the real one, with the instrumented extension in it.
mkdir -p "$folder/package"
rm -rf "$folder/package/magicbyte"
cp -r python/magicbyte python/pyspark_magicbyte "$folder/package/"
rm -f "$folder/package/magicbyte/"_core*.so
cp "$folder/$target/quick/lib_core.so" "$folder/package/magicbyte/_core.abi3.so"

runtime=$(gcc -print-file-name=libasan.so)
cxx=$(gcc -print-file-name=libstdc++.so.6)
tests=("$@")
if [ ${#tests[@]} -eq 0 ]; then
  tests=(tests/python/golden/test_vectors.py tests/python/golden/test_damaged.py tests/python/golden/test_whole.py
    tests/python/headers tests/python/test_hostile.py tests/python/test_arrow.py tests/python/test_encode.py
    tests/python/test_convert.py)
fi
export PYTHONPATH="$folder/package${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONMALLOC=malloc # so that a read behind the end of a bytes object is seen
export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1
export LD_PRELOAD="$runtime $cxx"
"$python" -c "import magicbyte, sys; print(magicbyte._core.__file__, file=sys.stderr)"
exec "$python" -m pytest -q -p no:cacheprovider "${tests[@]}"
