/*
 * Preloaded into redis-server by durability_test.go: the disk of its append-only file. It
 * writes down, into the file $SYNCED, up to which size the file has reached the disk: what
 * is beyond that is lost when the machine dies. The disk takes no time, so that the test
 * does not depend on that of the machine; while the file $SYNCED.slow exists, it takes
 * five seconds.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int fdatasync(int fd) {
	int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	const char *file = getenv("SYNCED"), *suffix = ".incr.aof";
	char link[64], path[4096], text[32];
	struct stat written;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	if (!file || n < (ssize_t)strlen(suffix) || strncmp(path + n - strlen(suffix), suffix, strlen(suffix)) != 0 || fstat(fd, &written) != 0)
		return sync(fd);
	snprintf(path, sizeof path, "%s.slow", file);
	if (access(path, F_OK) == 0)
		sleep(5);
	int out = open(file, O_WRONLY | O_CREAT, 0600);
	if (out < 0)
		return sync(fd);
	snprintf(text, sizeof text, "%020lld", (long long)written.st_size);
	if (pwrite(out, text, 20, 0) != 20)
		unlink(file);
	return close(out);
}
