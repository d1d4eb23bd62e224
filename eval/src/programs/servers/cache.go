// A cache of N values of about 1 kB behind HTTP on a Unix socket: cache SOCKET N.
//
// GET /k00000007 answers the value of key 7, which begins with {"id":7. Every 16th answer makes the
// value anew, as a cache does whose entries expire.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
)

type field struct {
	name  string
	state string
}

type entry struct {
	id     int
	fields []*field
}

const fieldsOfEntry = 12

func newEntry(key int) *entry {
	e := &entry{id: key}
	x := uint64(key)*0x9E3779B97F4A7C15 | 1
	for i := 0; i < fieldsOfEntry; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		e.fields = append(e.fields, &field{fmt.Sprintf("%016x", x), "active"})
	}
	return e
}

func (e *entry) text() []byte {
	text := make([]byte, 0, 1024)
	for _, f := range e.fields {
		text = append(text, `{"id":`...)
		text = strconv.AppendInt(text, int64(e.id), 10)
		text = append(text, `,"name":"`...)
		text = append(text, f.name...)
		text = append(text, `","state":"`...)
		text = append(text, f.state...)
		text = append(text, `"},`...)
	}
	return text
}

type cache struct {
	lock    sync.Mutex
	entries map[int]*entry
	answers int
}

func (c *cache) get(key int) *entry {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.answers++
	if _, there := c.entries[key]; there && c.answers%16 == 0 {
		c.entries[key] = newEntry(key)
	}
	return c.entries[key]
}

func (c *cache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, err := strconv.Atoi(r.URL.Path[min(2, len(r.URL.Path)):])
	e := c.get(key)
	if err != nil || e == nil {
		http.NotFound(w, r)
		return
	}
	text := e.text()
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.Write(text)
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func main() {
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	c := &cache{entries: make(map[int]*entry, n)}
	for key := 0; key < n; key++ {
		c.entries[key] = newEntry(key)
	}
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, c))
}
