package main

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// machine has processors that starting containers share evenly, at most one core each (processor sharing): the model of
// seatrial's simulator. `served` is the work that a start present from the beginning would have received.
type machine struct {
	mu     sync.Mutex
	cores  float64
	served float64 // core-seconds
	seen   time.Time
	starts starts
	timer  *time.Timer
}

type start struct {
	until float64 // work served when it is done
	done  chan struct{}
}

type starts []*start

func (s starts) Len() int           { return len(s) }
func (s starts) Less(i, j int) bool { return s[i].until < s[j].until }
func (s starts) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *starts) Push(x any)        { *s = append(*s, x.(*start)) }
func (s *starts) Pop() any {
	old := *s
	last := old[len(old)-1]
	*s = old[:len(old)-1]
	return last
}

func newMachine(cores float64) *machine { return &machine{cores: max(cores, 0.1), seen: time.Now()} }

// work returns when the start has received this much processor time.
func (m *machine) work(ctx context.Context, amount time.Duration) {
	if amount <= 0 {
		return
	}
	mine := &start{done: make(chan struct{})}
	m.mu.Lock()
	m.serve()
	mine.until = m.served + amount.Seconds()
	heap.Push(&m.starts, mine)
	m.plan()
	m.mu.Unlock()
	select {
	case <-mine.done:
	case <-ctx.Done(): // its share stays taken until it would have been done, as that of a runtime that works on
	}
}

func (m *machine) share() float64 { return min(1, m.cores/float64(len(m.starts))) }

func (m *machine) serve() {
	now := time.Now()
	if len(m.starts) > 0 {
		m.served += now.Sub(m.seen).Seconds() * m.share()
	}
	m.seen = now
	for len(m.starts) > 0 && m.starts[0].until <= m.served+1e-9 {
		close(heap.Pop(&m.starts).(*start).done)
	}
}

func (m *machine) plan() {
	if m.timer != nil {
		m.timer.Stop()
	}
	if len(m.starts) > 0 {
		left := time.Duration((m.starts[0].until - m.served) / m.share() * float64(time.Second))
		m.timer = time.AfterFunc(max(left, 0)+time.Microsecond, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.serve()
			m.plan()
		})
	}
}
