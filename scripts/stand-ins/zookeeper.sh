#!/bin/bash
# The entry point of the stand-in for ZooKeeper's image: its configuration of a single server, where Debian's package
# looks for it.
set -euo pipefail
cat >/etc/zookeeper/conf/zoo.cfg <<CFG
dataDir=/data
dataLogDir=/datalog
tickTime=2000
clientPort=2181
maxClientCnxns=60
admin.enableServer=false
4lw.commands.whitelist=srvr
CFG
exec zkServer.sh start-foreground
