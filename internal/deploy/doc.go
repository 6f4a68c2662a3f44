// Package deploy has no code of its own. Its tests check the files that a reader would otherwise have to believe: the
// Dockerfile, docker-compose.yml, and the documents.
package deploy
