package worker

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A rank and the listener prove to each other that they know the run's token. R and L are random texts (nonces):
//
//	rank      {"rank": 1, "ranks": 8, ..., "nonce": R}
//	listener  {"nonce": L}
//	rank      {"proof": HMAC-SHA256(token, "rank\n1\n8\nL\nR")}
//	listener  {"meet": ..., "proof": HMAC-SHA256(token, "epbench\nL\nR")}, or {"error": ...}

const (
	greetLimit  = 10 * time.Second // from the connection to the proof
	maxGreeting = 4096             // bytes of a line
	maxUnproved = 256              // connections without a proof
)

// Challenge asks a rank to prove that it knows the token.
type Challenge struct {
	Nonce string `json:"nonce"`
}

// Proof answers a Challenge with an HMAC-SHA256 in hexadecimal digits (see above).
type Proof struct {
	Proof string `json:"proof"`
}

func prove(token string, words ...string) string {
	h := hmac.New(sha256.New, []byte(token))
	io.WriteString(h, strings.Join(words, "\n"))
	return hex.EncodeToString(h.Sum(nil))
}

func sameProof(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

type gate struct {
	mu       sync.Mutex
	unproved []net.Conn // oldest first
}

// Pauses after an error of Accept, such as too many open files.
const (
	leastPause = 5 * time.Millisecond
	mostPause  = time.Second
)

func (g *gate) accept(l net.Listener, greet func(net.Conn)) error {
	pause := leastPause
	for {
		c, err := l.Accept()
		var timeout net.Error
		switch {
		case err == nil:
			pause = leastPause
			g.enter(c)
			go greet(c)
		case errors.Is(err, net.ErrClosed), errors.As(err, &timeout) && timeout.Timeout():
			return err
		default:
			time.Sleep(pause)
			pause = min(2*pause, mostPause)
		}
	}
}

// enter adds c to the connections without a proof. If there are too many, it closes the oldest. A rank sends its proof
// without delay, so the oldest connection probably comes from another program.
func (g *gate) enter(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.unproved) == maxUnproved {
		g.unproved[0].Close()
		g.unproved = g.unproved[1:]
	}
	g.unproved = append(g.unproved, c)
	_ = c.SetDeadline(time.Now().Add(greetLimit))
}

// leave removes c from the connections without a proof. It returns false if enter has closed c.
func (g *gate) leave(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.unproved, c)
	if i >= 0 {
		g.unproved = slices.Delete(g.unproved, i, i+1)
	}
	return i >= 0
}

// admit checks a greeting and its proof. The caller must close the connection after an error.
func (g *gate) admit(c net.Conn, in *bufio.Reader, token string) (Greeting, string, error) {
	greeting, proof, err := hear(c, in, token)
	if open := g.leave(c); err == nil && !open {
		err = errors.New("closed because too many others connected; try again")
	}
	return greeting, proof, err
}

// hear checks a greeting and the rank's proof. It returns the greeting and the listener's proof. A rank on this host
// may send the token instead of a proof.
func hear(c net.Conn, in *bufio.Reader, token string) (g Greeting, proof string, err error) {
	if err := readLine(in, &g); err != nil {
		return g, "", fmt.Errorf("greeting: %w", err)
	}
	if g.Nonce == "" {
		return g, "", hearToken(c, g, token)
	}
	nonce := rand.Text()
	if err := json.NewEncoder(c).Encode(Challenge{nonce}); err != nil {
		return g, "", err
	}
	var p Proof
	if err := readLine(in, &p); err != nil {
		return g, "", fmt.Errorf("proof: %w", err)
	}
	if !sameProof(p.Proof, prove(token, "rank", strconv.Itoa(g.Rank), strconv.Itoa(g.Ranks), nonce, g.Nonce)) {
		return g, "", errToken
	}
	return g, prove(token, "epbench", nonce, g.Nonce), nil
}

var errToken = fmt.Errorf("token: differs from this run's %s; the rank belongs to another run", tokenEnv)

func hearToken(c net.Conn, g Greeting, token string) error {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return errors.New("token: sent in clear from another host; send a proof instead, as epbench docs worker-protocol describes")
	}
	if !sameProof(g.Token, token) {
		return errToken
	}
	return nil
}

func readLine(in *bufio.Reader, v any) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// errUnheard means that another try may succeed: the listener had too many connections.
var errUnheard = errors.New("the listener closed the connection")

// knock exchanges a greeting and proofs with a listener. The caller must read later messages from `in`, not from c,
// because `in` may hold some of their bytes.
func knock(c net.Conn, token string, g Greeting) (a Admission, in *bufio.Reader, err error) {
	g.Nonce = rand.Text()
	in = bufio.NewReaderSize(c, maxGreeting)
	if err := json.NewEncoder(c).Encode(g); err != nil {
		return a, nil, fmt.Errorf("%w: %w", errUnheard, err)
	}
	var first struct {
		Challenge
		Admission
	}
	if err := readLine(in, &first); err != nil {
		return a, nil, fmt.Errorf("%w: %w", errUnheard, err)
	}
	if first.Error != "" {
		return a, nil, errors.New(first.Error)
	}
	proof := prove(token, "rank", strconv.Itoa(g.Rank), strconv.Itoa(g.Ranks), first.Nonce, g.Nonce)
	if err := json.NewEncoder(c).Encode(Proof{proof}); err != nil {
		return a, nil, fmt.Errorf("%w: %w", errUnheard, err)
	}
	if err := readLine(in, &a); err != nil {
		return a, nil, fmt.Errorf("%w: %w", errUnheard, err)
	}
	if a.Error != "" {
		return a, nil, errors.New(a.Error)
	}
	if !sameProof(a.Proof, prove(token, "epbench", first.Nonce, g.Nonce)) {
		return a, nil, fmt.Errorf("%s does not know this run's token, so this rank does not join it", c.RemoteAddr())
	}
	return a, in, nil
}

const knockLimit = time.Minute

// connect dials a listener and exchanges greetings. It tries again after errUnheard.
func connect(address, token string, g func(net.Conn) (Greeting, error)) (net.Conn, *bufio.Reader, Admission, error) {
	for end, pause := time.Now().Add(knockLimit), leastPause; ; pause = min(2*pause, mostPause) {
		c, err := net.DialTimeout("tcp", address, knockLimit)
		if err != nil {
			return nil, nil, Admission{}, err
		}
		greeting, err := g(c)
		var a Admission
		var in *bufio.Reader
		if err == nil {
			a, in, err = knock(c, token, greeting)
		}
		if err == nil {
			return c, in, a, nil
		}
		c.Close()
		if !errors.Is(err, errUnheard) || time.Now().After(end) {
			return nil, nil, a, err
		}
		time.Sleep(pause/2 + mathrand.N(pause)) // keeps ranks from trying at the same time
	}
}
