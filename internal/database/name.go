package database

import "github.com/go-sql-driver/mysql"

// NameOf says where the database of a DSN is, without user and password: host:port/database.
func NameOf(dsn string) string {
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "of an unreadable DSN"
	}
	return c.Addr + "/" + c.DBName
}
