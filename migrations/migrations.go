// Package migrations embeds the schema: numbered SQL files, up and down, in one folder per database engine.
//
// MySQL commits each DDL statement by itself. A file with two of them could stop half way and could
// not be repeated, so every file in the folder mysql has one, or only statements that
// can be repeated. SQLite's DDL is transactional, and
// its files may have several.
package migrations

import "embed"

// Files has the folders mysql (for MariaDB too) and sqlite.
//
//go:embed mysql/*.sql sqlite/*.sql
var Files embed.FS
