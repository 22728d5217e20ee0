#!/usr/bin/env bash
# Python tests on an extension built with AddressSanitizer, its C codecs included: asan.sh PYTHON [PYTEST ARGUMENTS]
#
# The interpreter itself is not instrumented, so the runtime is preloaded: gcc's, which serves rustc's instrumentation, too,
# and there may be only one in a process. CPython does not free all at its end, so leaks are not looked for.
# Of C, uses after a scope are not looked for: gcc 12 makes a constant array a global and poisons it at the end of its scope all
# the same, so zstd (ZSTD_selectBtGetAllMatches) is said to use a "stack" that is a global variable.
# A nightly toolchain, or a stable one that RUSTC_BOOTSTRAP makes take nightly's flags: MAGICBYTE_NIGHTLY=stable RUSTC_BOOTSTRAP=1.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=$(realpath -s "$1")
shift
toolchain=${MAGICBYTE_NIGHTLY:-nightly}
target=$(rustc "+$toolchain" -vV | sed -n 's/^host: //p')
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/asan
CARGO_TARGET_DIR=$folder RUSTFLAGS=-Zsanitizer=address PYO3_PYTHON=$python \
  CFLAGS="-fsanitize=address -fno-sanitize-address-use-after-scope -fno-omit-frame-pointer -g" \
  cargo "+$toolchain" build -q -p magicbyte-python --profile quick --target "$target"

# A package beside the real one, with the instrumented extension in it.
mkdir -p "$folder/package"
rm -rf "$folder/package/magicbyte" "$folder/package/pyspark_magicbyte"
cp -r python/magicbyte python/pyspark_magicbyte "$folder/package/"
rm -f "$folder/package/magicbyte/"_core*.so
cp "$folder/$target/quick/lib_core.so" "$folder/package/magicbyte/_core.abi3.so"

# Everything that gives the core bytes; not Spark and the broker (a JVM does not run under the sanitizer), nor what measures
# time and memory, of which the sanitizer takes its share.
rooms=(golden headers interceptors test_arrow.py test_clean.py test_convert.py test_encode.py test_header_filter.py
  test_hostile.py test_log.py test_recovery.py test_replicas.py test_rewriting.py test_transactions.py test_usage.py
  test_verify.py test_writer.py trust/test_changing.py trust/test_threads.py)
tests=("$@")
[ $# -gt 0 ] || tests=("${rooms[@]/#/tests/python/}")

export PYTHONPATH="$folder/package${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONMALLOC=malloc # so that a read behind the end of a bytes object is seen
# That a mapped file which is truncated ends in SIGBUS is tested. A report goes to a file: pytest has the descriptors, and the process ends with it.
export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1:handle_sigbus=0:log_path=$folder/report
rm -f "$folder"/report.*
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so.6)"
export LD_PRELOAD
"$python" -c "import magicbyte._core as core; print('the sanitizer has', core.__file__)"
status=0
"$python" -m pytest -q -p no:cacheprovider -m "not spark and not broker and not slow and not long" \
  -k "not takes_long_or_much and not take_the_memory and not takes_no_memory" "${tests[@]}" || status=$?
cat "$folder"/report.* 2>/dev/null || echo "the sanitizer found nothing"
exit "$status"
