/*
 * Preloaded into mariadbd by durable_servers_test.go: a disk that hangs. While the file
 * $STALL exists, nothing is written to the redo log.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void stall(int fd) {
	const char *file = getenv("STALL"), *log = "/ib_logfile0";
	char link[64], path[4096];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path);
	if (!file || n < (ssize_t)strlen(log) || strncmp(path + n - strlen(log), log, strlen(log)) != 0)
		return;
	while (access(file, F_OK) == 0)
		usleep(1000);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
	stall(fd);
	return ((ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite"))(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
	stall(fd);
	return ((ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64"))(fd, data, size, at);
}
