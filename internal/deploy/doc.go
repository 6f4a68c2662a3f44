// Package deploy has no code of its own: its tests read the Dockerfile and the
// docker-compose.yml at the top of the project and check what a reader of those
// files would otherwise have to believe.
package deploy
