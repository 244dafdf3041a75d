/* Sends file descriptors to other processes of this host, in letters over Unix sockets. */
#ifndef EPCOMM_LETTERS_H
#define EPCOMM_LETTERS_H

#include <stdint.h>

typedef struct Letter {
  uint64_t key; /* The key of the sender's box. Only processes that got the box know it. */
  int32_t rank, pad; /* the sender */
} Letter;

typedef struct LetterBox {
  char name[16]; /* abstract name of a socket: a zero and random bytes */
  uint64_t key;  /* a random number; 0: there is no socket */
} LetterBox;

/* Opens a socket for letters, and fills *box. Returns the socket, or -1 if there is none. */
int letter_open(LetterBox *box);

/* Sends a letter with a descriptor, without waiting. Returns whether it was sent. */
int letter_send(int socket, const LetterBox *to, Letter letter, int file);

/* Returns the end of a wait for letters that begins now. */
int64_t letter_end(void);

/* Waits for a letter with a descriptor. Returns the descriptor, or -1 if none came until the time `end`. Ignores
 * messages of another size or without a descriptor. The caller must check the letter's key and close the descriptor. */
int letter_receive(int socket, int64_t end, Letter *letter);

#endif
