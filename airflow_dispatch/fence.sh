#!/bin/sh
# Lets one execution of a job write to a checkpoint folder: the one with the highest DISPATCH_EPOCH.
#
#   sh fence.sh claim FOLDER              before anything is read from it; makes it when it is not there
#   sh fence.sh check FOLDER              before a write that does not go through save
#   sh fence.sh save FOLDER NAME          standard input becomes FOLDER/NAME, in one step or not at all
#   sh fence.sh save FOLDER NAME FILE     a copy of FILE does
#
# The twin of fence.py, which says how it works and why it holds; both work on one folder together. It needs a POSIX
# shell and the usual tools, and syncs what it saves where there is a sync. Exit codes: 0 done, 64 wrong usage, 73 the
# folder can't be claimed or written, 76 another execution holds it, 78 DISPATCH_EPOCH is no decimal number.
set -eu
LC_ALL=C
export LC_ALL

fail() {
  code=$1
  shift
  echo "dispatch: $*" >&2
  exit "$code"
}

usage() {
  fail 64 "usage: fence.sh claim FOLDER | check FOLDER | save FOLDER NAME [FILE]"
}

words() {
  number=${1%%.*}
  while [ "${number#0}" != "$number" ] && [ "$number" != 0 ]; do number=${number#0}; done
  case $1 in
    *.*) echo "epoch $number (${1#*.})" ;;
    *) echo "epoch $number" ;;
  esac
}

is_before() {
  expr "x$1" '<' "x$2" >/dev/null
}

# This execution's claim: the epoch in twelve digits, then its token.
read_own() {
  own=${DISPATCH_EPOCH-}
  case $own in
    '' | *[!0-9]* | ?????????????*) fail 78 "DISPATCH_EPOCH is '$own', not a decimal number of at most 12 digits" ;;
  esac
  while [ ${#own} -lt 12 ]; do own=0$own; done
  case ${DISPATCH_ATTEMPT-} in
    *[!A-Za-z0-9._-]*) fail 78 "DISPATCH_ATTEMPT is '$DISPATCH_ATTEMPT', not letters, digits, '.', '_' and '-'" ;;
  esac
  own=$own${DISPATCH_ATTEMPT:+.$DISPATCH_ATTEMPT}
}

# Sets holder to the last claim, or to nothing, and found to whether this execution's own is there.
look() {
  holder=
  found=no
  # Asks the server: an NFS client compares its stored listing with the folder that comes back.
  touch -c -- "$state" && [ -r "$state" ] || fail 73 "$folder can't be claimed"
  for path in "$state"/epoch-*; do
    text=${path##*/epoch-}
    if [ "$text" = '*' ] && [ ! -e "$path" ]; then continue; fi
    case $text in
      *[!A-Za-z0-9._-]* | ????????????. | ????????????[!.]*) text= ;;
      [0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]*) ;;
      *) text= ;;
    esac
    [ -n "$text" ] || fail 73 "$path is no claim: somebody else made it"
    holder=$text
    if [ "$text" = "$own" ]; then found=yes; fi
  done
}

refuse_when_overtaken() {
  if [ -n "$holder" ] && is_before "$own" "$holder"; then
    fail 76 "$folder is held by $(words "$holder"); $(words "$own") may not write there any more"
  fi
}

check() {
  look
  refuse_when_overtaken
  [ $found = yes ] || fail 73 "the claim of $(words "$own") is gone from $folder: it was emptied or replaced"
}

# Removes a work folder, whoever else does too.
discard() {
  tries=0
  until rm -rf -- "$1" 2>/dev/null; do
    # NFS keeps what a process of this machine has open under a name by which no save looks for it.
    if [ -z "$(find "$1" ! -type d ! -name '.nfs*' 2>/dev/null)" ]; then break; fi
    tries=$((tries + 1))
    [ $tries -lt 100 ] || fail 73 "$1 can't be removed"
  done
}

claim() {
  mkdir -p -- "$state" || fail 73 "$folder can't be claimed"
  look
  refuse_when_overtaken
  (: >>"$state/epoch-$own") || fail 73 "$folder can't be claimed"
  check
  for path in "$state"/work-*; do
    text=${path##*/work-}
    if [ -e "$path" ] && is_before "${text%@*}" "$own"; then discard "$path"; fi
  done
}

save() {
  target=$folder/$1
  [ ! -d "$target" ] || fail 73 "$target is a folder"
  tries=0
  until mkdir -- "$state/work-$own@$$.$tries" 2>/dev/null; do
    [ -e "$state/work-$own@$$.$tries" ] || fail 73 "$folder can't be written"
    tries=$((tries + 1))
  done
  work=$state/work-$own@$$.$tries
  trap 'discard "$work"' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  check
  mkdir -p -- "${target%/*}"
  partial=$work/${target##*/}
  if cat -- "${2:--}" >"$partial" && sync_if_there "$partial"; then
    check
    if mv -f -- "$partial" "$target"; then return; fi
  fi
  check
  fail 73 "$target could not be written"
}

sync_if_there() {
  if command -v sync >/dev/null; then sync -- "$1"; fi
}

[ $# -ge 2 ] || usage
folder=$2
state=$folder/.dispatch-fence
read_own
case $1:$# in
  claim:2) claim ;;
  check:2) check ;;
  save:3) save "$3" ;;
  save:4) save "$3" "$4" ;;
  *) usage ;;
esac
