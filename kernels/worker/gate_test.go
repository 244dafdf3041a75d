package worker

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// flood keeps n connections of strangers open: silent, of other protocols, or with a wrong proof.
func flood(t *testing.T, address string, n int) {
	t.Helper()
	stop := make(chan struct{})
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("tcp", address)
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				switch i % 4 {
				case 1:
					io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
				case 2:
					io.WriteString(c, strings.Repeat("x", 2*maxGreeting))
				case 3:
					fmt.Fprintf(c, `{"rank":1,"ranks":4,"nonce":"n"}`+"\n"+`{"proof":"guess"}`+"\n")
				}
				_ = c.SetReadDeadline(time.Now().Add(time.Second))
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			}
		})
	}
	t.Cleanup(func() { close(stop); running.Wait() })
}

// longEnough is the longest time for which the function eventually waits.
const longEnough = 90 * time.Second

func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	done, began := make(chan error, 1), time.Now()
	go func() { done <- f() }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s after %.2f s", what, time.Since(began).Seconds())
	case <-time.After(longEnough):
		t.Fatalf("%s: not within %v", what, longEnough)
	}
}

// floodFirst returns the time in which strangers connect before the first rank does. EPBENCH_FLOOD sets it, such as
// 60s.
func floodFirst(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(cmp.Or(os.Getenv("EPBENCH_FLOOD"), "0"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestFlood(t *testing.T) {
	g, _ := fakeGroup(t)
	t.Cleanup(g.close)
	address := g.listener.Addr().String()
	flood(t, address, 200)
	time.Sleep(floodFirst(t))
	t.Setenv(addressEnv, address)
	t.Setenv(tokenEnv, g.token)
	const ranks = 8
	eventually(t, "all ranks connected", func() error {
		errs := make(chan error, ranks)
		for rank := range ranks {
			go func() {
				l, err := Join(Place{Rank: rank, Ranks: ranks}, func(string) (string, error) { return "here", nil })
				if err == nil && l.Meet != "here" {
					err = fmt.Errorf("rank %d meets at %q", rank, l.Meet)
				}
				errs <- err
			}()
		}
		for range ranks {
			if err := <-errs; err != nil {
				return err
			}
		}
		return nil
	})
}

func TestFloodOfRankZero(t *testing.T) {
	l := listenAt(t, Loopback)
	const ranks = 4
	flood(t, l.Addr().String(), 200)
	time.Sleep(floodFirst(t))
	zero := &Line{Place: Place{Rank: 0, Ranks: ranks}, Token: "secret"}
	for rank := 1; rank < ranks; rank++ {
		go func() {
			one := &Line{Place: Place{Rank: rank, Ranks: ranks}, Token: "secret"}
			if link, err := one.Visit(l.Addr().String()); err == nil {
				fmt.Fprintf(link, "rank %d\n", rank)
			}
		}()
	}
	eventually(t, "all ranks joined rank 0", func() error {
		links, err := zero.Gather(l.(*net.TCPListener), longEnough)
		for i, link := range links {
			line, err := bufio.NewReader(link).ReadString('\n')
			if err != nil || line != fmt.Sprintf("rank %d\n", i+1) {
				return fmt.Errorf("link %d: %q, %v", i, line, err)
			}
		}
		return err
	})
}

func TestGatherEnds(t *testing.T) {
	l := listenAt(t, Loopback)
	zero := &Line{Place: Place{Rank: 0, Ranks: 3}, Token: "secret"}
	if _, err := zero.Gather(l.(*net.TCPListener), time.Millisecond); err == nil || !strings.Contains(err.Error(), "2 of 3 ranks have not joined") {
		t.Errorf("%v", err)
	}
}

// TestProof: the token is never sent, a proof is valid for one connection, and impostors are refused.
func TestProof(t *testing.T) {
	said := func(answer func(in *bufio.Reader, out net.Conn)) (string, error) {
		l := listenAt(t, Loopback)
		defer l.Close()
		heard := make(chan string, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			var all strings.Builder
			answer(bufio.NewReader(io.TeeReader(c, &all)), c)
			heard <- all.String()
		}()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _, err = knock(c, "secret", Greeting{Rank: 1, Ranks: 2})
		return <-heard, err
	}
	var proof, nonce string
	text, err := said(func(in *bufio.Reader, out net.Conn) {
		var g Greeting
		var p Proof
		_ = readLine(in, &g)
		_ = json.NewEncoder(out).Encode(Challenge{"listener"})
		_ = readLine(in, &p)
		proof, nonce = p.Proof, g.Nonce
		_ = json.NewEncoder(out).Encode(Admission{Meet: "here", Proof: p.Proof})
	})
	if err == nil || !strings.Contains(err.Error(), "does not know this run's token") || strings.Contains(text, "secret") {
		t.Errorf("%v; the listener heard %q", err, text)
	}
	if proof != prove("secret", "rank", "1", "2", "listener", nonce) {
		t.Errorf("proof %s", proof)
	}
	for name, c := range map[string]struct {
		greeting Greeting
		proof    string
		want     string
	}{
		"a proof of another connection": {Greeting{Rank: 1, Ranks: 2, Nonce: nonce}, proof, "token: differs"},
		"no proof":                      {Greeting{Rank: 1, Ranks: 2, Nonce: nonce}, "", "token: differs"},
		"a wrong token":                 {Greeting{Rank: 1, Ranks: 2, Token: "guess"}, "", "token: differs"},
		"no token":                      {Greeting{Rank: 1, Ranks: 2}, "", "token: differs"},
	} {
		here, there := pipe(t)
		go func() {
			e := json.NewEncoder(there)
			_ = e.Encode(c.greeting)
			_ = e.Encode(Proof{c.proof})
		}()
		if _, _, err := hear(here, bufio.NewReaderSize(here, maxGreeting), "secret"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func pipe(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	l := listenAt(t, Loopback)
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); there.Close() })
	return here, there
}

type faultyListener struct {
	net.Listener
	left int
}

func (l *faultyListener) Accept() (net.Conn, error) {
	if l.left > 0 {
		l.left--
		return nil, fmt.Errorf("accept: too many open files")
	}
	return l.Listener.Accept()
}

func TestAcceptGoesOn(t *testing.T) {
	l := listenAt(t, Loopback)
	var g gate
	met := make(chan net.Conn)
	go g.accept(&faultyListener{l, 3}, func(c net.Conn) { met <- c })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "a connection was greeted", func() error { (<-met).Close(); return nil })
	l.Close()
}

// TestOldestIsClosed: if there is one connection too many without a proof, the oldest is closed.
func TestOldestIsClosed(t *testing.T) {
	var g gate
	var first net.Conn
	for i := range maxUnproved + 1 {
		here, there := net.Pipe()
		if i == 0 {
			first = there
		} else {
			defer there.Close()
		}
		g.enter(here)
	}
	if _, err := first.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the oldest connection is open: %v", err)
	}
	if len(g.unproved) != maxUnproved {
		t.Errorf("%d connections are unproved", len(g.unproved))
	}
}

func listenAt(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
