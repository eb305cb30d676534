#!/bin/bash
# fresh_machine.sh SUITE [COMPILER]: both commands of the README in a bare Debian.
#
# SUITE is bookworm (gcc 12, Python 3.11), trixie (gcc 14, Python 3.13) or any other that
# debootstrap knows; COMPILER is g++ or clang++. Makes a root directory with debootstrap, installs
# git, make, python3 with venv and the compiler in it, clones HEAD (changes that are not committed
# stay out) and runs there, as an ordinary user, `make quickstart` and `make test`, or the targets
# that TARGETS names. Exits with 0 only if all of them pass.
#
# Needs root and debootstrap. Packages come from MIRROR, or from where this machine has its own;
# the proxies, certificates and pip's configuration are this machine's, too. ROOT names a directory
# that is kept, and used again by the next run; else it is a temporary one.
set -euo pipefail

suite=${1:?usage: fresh_machine.sh SUITE [g++|clang++]}
compiler=${2:-g++}
case $compiler in
  g++) package=g++ ;;
  clang++) package=clang ;;
  *) echo "fresh_machine.sh: compiler is $compiler, not g++ or clang++" >&2; exit 2 ;;
esac
repository=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
targets=${TARGETS:-quickstart test}

if [ -n "${ROOT:-}" ]; then
  root=$ROOT
  mkdir -p "$root"
else
  root=$(mktemp -d)
fi

mounts=()
clean_up() {
  local at
  for at in ${mounts[@]+"${mounts[@]}"}; do umount -l "$at"; done
  # --one-file-system: should a mount have stayed after all, nothing below it is touched.
  if [ -z "${ROOT:-}" ]; then rm -rf --one-file-system "$root"; fi
}
trap clean_up EXIT
mount_at() {  # mount_at PLACE ARGUMENTS...: mount what ARGUMENTS say at PLACE in the root
  mkdir -p "$root$1"
  mount "${@:2}" "$root$1"
  mounts=("$root$1" ${mounts[@]+"${mounts[@]}"})
}
inside() { chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
  DEBIAN_FRONTEND=noninteractive "${settings[@]}" "$@"; }

# The first Debian archive among this machine's own sources, which stand in one of two formats.
own_mirror() {
  { cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |  # either may be absent
    grep -oE '^(URIs:|deb( \[[^]]*\])?) +\S+/debian/?( |$)' | grep -oE '\S+/debian/?' | sed -n 1p
}
if [ ! -e "$root/etc/debian_version" ]; then
  debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" \
    "${MIRROR:-$(own_mirror || echo http://deb.debian.org/debian)}"
fi

# How this machine reaches the network.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
apt-config dump 2>/dev/null | grep -iE '^Acquire::[a-z:]*proxy' > "$root/etc/apt/apt.conf.d/90proxy" || true
settings=()
while IFS= read -r line; do settings+=("$line"); done < <(
  env | grep -iE '^(https?_proxy|no_proxy|ftp_proxy|all_proxy|PIP_[A-Z_]+)=' || true)
bundle=/etc/ssl/certs/ca-certificates.crt
if [ -e $bundle ]; then cp $bundle "$root$bundle"; fi
for file in /etc/pip.conf "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf"; do
  if [ -e "$file" ]; then cat "$file"; fi
done > "$root/etc/pip.conf.parts"
# Folders of packages that it names lie in the same place there, those of an index (.../simple) with
# the files beside it that it refers to.
while IFS= read -r folder; do
  if [ -d "$folder" ]; then mount_at "$folder" --bind -o ro "$folder"; fi
done < <({ cat "$root/etc/pip.conf.parts"; env | grep '^PIP_' || true; } |
         grep -oE '(file://|[=[:space:]])/[^[:space:]]+' | sed -E 's#^(file://|[=[:space:]])##; s#/simple/?$##' | sort -u)
# Files of several places may repeat a section, which one file must not.
python3 - "$root/etc/pip.conf.parts" > "$root/etc/pip.conf" <<'PYTHON'
import configparser, sys
parts = configparser.RawConfigParser(strict=False)
parts.read(sys.argv[1])
parts.write(sys.stdout)
PYTHON

mount_at /proc -t proc proc
mount_at /sys -t sysfs -o ro sysfs  # MPI reads the processors and networks there
mount_at /dev/shm -t tmpfs tmpfs

inside apt-get update -qq
inside apt-get install -qq --no-install-recommends git make python3 python3-venv $package libc6-dev
if [ "$compiler" = clang++ ]; then settings+=(CXX=clang++); fi

inside id builder >/dev/null 2>&1 || inside useradd --create-home builder
rm -rf "$root/home/builder/rushlight"
git clone --quiet --no-local "$repository" "$root/home/builder/rushlight"
inside chown -R builder:builder /home/builder/rushlight
inside "$compiler" --version | head -n 1
for target in $targets; do
  chroot --userspec=builder:builder "$root" env -i HOME=/home/builder LANG=C.UTF-8 \
    PATH=/usr/bin:/bin "${settings[@]}" make -C /home/builder/rushlight "$target" \
    ${JOBS:+JOBS=$JOBS}
done
echo "fresh_machine.sh: $suite with $compiler: $targets: passed"
