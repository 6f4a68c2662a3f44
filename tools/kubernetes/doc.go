// Package kubernetes has the tests of deploy/kubernetes. It is a module of its own, so that the types of Kubernetes
// stay out of the project's go.mod.
package kubernetes
