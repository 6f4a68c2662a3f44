#!/bin/sh
#
# A state snapshot transfer (SST) of Galera between data folders of one machine. mariadbd runs it on the node that joins
# and on the node that donates. Both sides print what mariadbd expects; the protocol is that of its own wsrep_sst_rsync.
# The package of those scripts is not needed then, and neither is rsync.
#
# --bypass: the joiner gets what it missed as an incremental transfer (IST); only the position is handed over here.

bypass=
while [ $# -gt 0 ]; do
  case $1 in
  --role) role=$2; shift ;;
  --address) address=$2; shift ;;
  --datadir) datadir=${2%/}; shift ;;
  --gtid) gtid=$2; shift ;;
  --parent) parent=$2; shift ;;
  --bypass) bypass=1 ;;
  esac
  shift
done

case $role in
joiner)
  rm -f "$datadir.position"
  echo "ready 127.0.0.1:1/$datadir" # the donor gets it as its address
  while [ ! -e "$datadir.position" ]; do
    kill -0 "$parent" || exit 1
    sleep 0.02
  done
  cat "$datadir.position"
  ;;
donor)
  to=${address#*/}
  if [ -z "$bypass" ]; then
    # The server stops writing, and then writes its position into this file.
    rm -f "$datadir/tables_flushed"
    echo "flush tables"
    while [ ! -s "$datadir/tables_flushed" ]; do
      kill -0 "$PPID" || exit 1
      sleep 0.02
    done
    gtid=$(cat "$datadir/tables_flushed")
    tar -C "$datadir" --exclude=./galera.cache --exclude=./grastate.dat --exclude=./gvwstate.dat \
      --exclude=./tables_flushed --exclude='./ib_buffer_pool*' -cf - . | tar -C "$to" -xf - || exit 1
    rm -f "$datadir/tables_flushed"
    echo continue
  fi
  echo "$gtid" >"$to.position.new" && mv "$to.position.new" "$to.position"
  echo "done $gtid"
  ;;
esac
