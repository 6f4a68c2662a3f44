// Package migrations is the schema: numbered SQL, forward and back, one folder
// per database engine, embedded in the program.
//
// MySQL commits each DDL statement by itself, so a file with two of them could
// stop half way and could not be repeated: in the mysql folder every file holds
// one. SQLite's DDL is transactional, and there a file may hold several.
package migrations

import "embed"

// Files holds the folders mysql (which MariaDB shares) and sqlite.
//
//go:embed mysql/*.sql sqlite/*.sql
var Files embed.FS
