#!/bin/bash
# The entry point of the stand-in for ZooKeeper's image: its configuration of one server of an ensemble, where Debian's
# package looks for it.
set -euo pipefail
echo "$ZOO_MY_ID" >/data/myid
{
  cat <<CFG
dataDir=/data
dataLogDir=/datalog
tickTime=2000
initLimit=5
syncLimit=2
clientPort=2181
maxClientCnxns=60
admin.enableServer=false
4lw.commands.whitelist=srvr
CFG
  for server in $ZOO_SERVERS; do echo "${server%;*}"; done
} >/etc/zookeeper/conf/zoo.cfg
exec zkServer.sh start-foreground
