#!/bin/sh
# The linker of this workspace: `cc`, and on a machine without one, the way to get it.
# It installs only while the `setup` binary itself is linked (that is: for `cargo quickstart` and
# `cargo verify`); every other build gets the two lines that say what to do.
for compiler in cc "${CC:-gcc}" gcc clang; do
    if command -v "$compiler" >/dev/null 2>&1; then exec "$compiler" "$@"; fi
done

fail() {
    echo "error: no C compiler, so Rust cannot link" >&2
    echo "help: install one by hand (Debian: apt-get install gcc libc6-dev), then run the same command again" >&2
    exit 1
}

case "$*" in */deps/setup-*) ;; *) fail ;; esac
command -v apt-get >/dev/null 2>&1 || fail
if [ "$(id -u)" = 0 ]; then sudo=""; elif command -v sudo >/dev/null 2>&1; then sudo="sudo"; else fail; fi
log=$(mktemp)
# Cargo hides a linker's output unless it fails; the terminal, where there is one, still shows this.
(echo "[0] C compiler: installs gcc and libc6-dev (log: $log)" >/dev/tty) 2>/dev/null
if $sudo apt-get update >"$log" 2>&1 &&
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends gcc libc6-dev >>"$log" 2>&1; then
    rm -f "$log"
    exec cc "$@"
fi
tail -n 20 "$log" >&2
fail
