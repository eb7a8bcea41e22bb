#!/bin/sh
# packages.sh: installs the Debian packages that a task needs, and only those that are missing.
# Usage: scripts/packages.sh GROUP...   with GROUP one of build, format, check, aarch64
set -eu

build="gcc libc6-dev make cmake ninja-build pkg-config libjansson-dev libpcre2-dev libutf8proc-dev
       libcmocka-dev libatomic1 ca-certificates python3 python3-pip unzip"
format="clang-format"
check="clang $format"
aarch64="gcc-aarch64-linux-gnu libc6-dev-arm64-cross libstdc++6-arm64-cross qemu-user libjansson-dev:arm64 libpcre2-dev:arm64
         libutf8proc-dev:arm64 libcmocka-dev:arm64"

say() { printf '%s\n' "$*" >&2; }

# sudo clears the environment; a proxy must get through.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    elif command -v sudo >/dev/null; then
        sudo env DEBIAN_FRONTEND=noninteractive \
            ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
            ${no_proxy:+no_proxy="$no_proxy"} "$@"
    else
        say "error: packages are missing and this is neither root nor a user with sudo; as root, run:"
        say "    $*"
        return 1
    fi
}

[ $# -gt 0 ] || { say "usage: $0 build|format|check|aarch64..."; exit 2; }
wanted=
for group in "$@"; do
    case $group in
        build) wanted="$wanted $build" ;;
        format) wanted="$wanted $format" ;;
        check) wanted="$wanted $check" ;;
        aarch64) wanted="$wanted $aarch64" ;;
        *) say "$0: no group '$group', wanted build, format, check or aarch64"; exit 2 ;;
    esac
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    # shellcheck disable=SC2086,SC2116 # one line of the list
    say "note: no apt-get here; what is needed, by its Debian names: $(echo $wanted)"
    exit 0
fi

missing=
for package in $wanted; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

case $missing in
    *:arm64*) dpkg --print-foreign-architectures | grep -qx arm64 || as_root dpkg --add-architecture arm64 ;;
esac
say "installing Debian packages (each under its own licence, in /usr/share/doc):$missing"
as_root apt-get update -q >&2
# shellcheck disable=SC2086 # a list, to be split
as_root apt-get install -q -y --no-install-recommends $missing >&2
