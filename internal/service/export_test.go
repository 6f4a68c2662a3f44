package service

// Healthcheck is the command, for the tests that stand outside the package.
var Healthcheck = healthcheck
