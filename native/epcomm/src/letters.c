#include "letters.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 5 }; /* how long a process waits for all its letters */

/* Writes the address of a socket to *a. Returns its size. */
static socklen_t address(struct sockaddr_un *a, const LetterBox *box) {
  memset(a, 0, sizeof *a);
  a->sun_family = AF_UNIX;
  memcpy(a->sun_path, box->name, sizeof box->name);
  return sizeof a->sun_family + sizeof box->name;
}

static int open_box(const LetterBox *box) {
  struct sockaddr_un a;
  const socklen_t size = address(&a, box);
  int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (s >= 0 && bind(s, (struct sockaddr *)&a, size) == 0) return s;
  if (s >= 0) close(s);
  return -1;
}

int letter_open(LetterBox *box) {
  memset(box, 0, sizeof *box);
  int s = -1;
  if (getrandom(box->name + 1, sizeof box->name - 1, 0) == sizeof box->name - 1 &&
      getrandom(&box->key, sizeof box->key, 0) == sizeof box->key && box->key != 0)
    s = open_box(box);
  if (s < 0) box->key = 0;
  return s;
}

/* A message of one Letter and one descriptor. */
typedef struct Packet {
  Letter letter;
  struct iovec text;
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } room;
  struct msghdr head;
} Packet;

static void packet_init(Packet *p) {
  memset(p, 0, sizeof *p);
  p->text.iov_base = &p->letter;
  p->text.iov_len = sizeof p->letter;
  p->head.msg_iov = &p->text;
  p->head.msg_iovlen = 1;
  p->head.msg_control = p->room.bytes;
  p->head.msg_controllen = CMSG_LEN(sizeof(int)); /* no room for a second descriptor */
}

int letter_send(int socket, const LetterBox *to, Letter letter, int file) {
  struct sockaddr_un a;
  Packet p;
  packet_init(&p);
  p.letter = letter;
  p.head.msg_namelen = address(&a, to);
  p.head.msg_name = &a;
  struct cmsghdr *c = CMSG_FIRSTHDR(&p.head);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof file);
  memcpy(CMSG_DATA(c), &file, sizeof file);
  return sendmsg(socket, &p.head, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof p.letter;
}

static int64_t milliseconds(void) {
  struct timespec t = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t letter_end(void) { return milliseconds() + 1000 * SECONDS; }

int letter_receive(int socket, int64_t end, Letter *letter) {
  for (int64_t left = end - milliseconds(); left > 0; left = end - milliseconds()) {
    Packet p;
    int file = -1;
    struct pollfd ready = {socket, POLLIN, 0};
    packet_init(&p);
    if (poll(&ready, 1, (int)left) < 0 && errno != EINTR) return -1;
    const ssize_t n = recvmsg(socket, &p.head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) continue;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&p.head);
    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof file))
      memcpy(&file, CMSG_DATA(c), sizeof file);
    *letter = p.letter;
    if (file >= 0 && n == (ssize_t)sizeof p.letter && !(p.head.msg_flags & MSG_TRUNC)) return file;
    if (file >= 0) close(file);
  }
  return -1;
}
