package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Annotations that seatrial sets: how long a pod runs. KWOK reads the same one.
const durationAnnotation = "seatrial.dev/duration"

// RuntimeSpec says how long the played runtime takes, and what is wrong with it. Times are nanoseconds.
type RuntimeSpec struct {
	Sandbox    [2]time.Duration `json:"sandbox"`    // least and most
	Start      [2]time.Duration `json:"start"`      // of a container, beside the work
	Work       time.Duration    `json:"work"`       // processor time of a start, on processors that all starts share
	AtOnce     int              `json:"atOnce"`     // starts at the same time; 0: any number
	Image      int64            `json:"image"`      // bytes of an image
	Bandwidth  int64            `json:"bandwidth"`  // bytes per second; 0: images are there at once
	Slow       time.Duration    `json:"slow"`       // that every answer takes longer
	FailEvery  int              `json:"failEvery"`  // every n-th start fails; 0: none
	CrashEvery int              `json:"crashEvery"` // every n-th container that has run its time ends with an error; 0: none
	DiskFull   bool             `json:"diskFull"`
}

type podName struct{ namespace, name, uid string }

type sandbox struct {
	id      string
	pod     podName
	config  *cri.PodSandboxConfig
	created int64
	state   cri.PodSandboxState
	ip      string
}

type container struct {
	status  *cri.ContainerStatus
	sandbox string
	uid     string // of its pod
	end     *time.Timer
}

// duration is how long a pod runs, and since when that is known.
type duration struct {
	text  string
	long  time.Duration
	known time.Time
}

// runtime is that of one node. It outlives kubelets.
type runtime struct {
	mu         sync.Mutex
	node       string
	spec       RuntimeSpec
	slots      chan struct{} // starts at the same time
	machine    *machine
	journal    *journal
	made       int // sandboxes and containers, for their names
	starts     int
	ends       int // of containers that have run their time
	sandboxes  map[string]*sandbox
	containers map[string]*container
	durations  map[string]duration // uid of a pod →
	images     map[string]bool
}

func newRuntime(node string, machine *machine, journal *journal) *runtime {
	return &runtime{node: node, machine: machine, journal: journal, sandboxes: map[string]*sandbox{},
		containers: map[string]*container{}, durations: map[string]duration{}, images: map[string]bool{}}
}

func (r *runtime) become(spec RuntimeSpec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if spec.AtOnce != r.spec.AtOnce {
		r.slots = nil
		if spec.AtOnce > 0 {
			r.slots = make(chan struct{}, spec.AtOnce)
		}
	}
	r.spec = spec
}

func (r *runtime) now() RuntimeSpec {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spec
}

func (r *runtime) diskFull() bool { return r.now().DiskFull }

// clear ends all containers: the node is gone.
func (r *runtime) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.containers {
		if one.end != nil {
			one.end.Stop()
		}
	}
	clear(r.containers)
	clear(r.sandboxes)
}

// hear takes over how long a pod runs. A container that runs already ends that long after it was said.
func (r *runtime) hear(uid string, annotations map[string]string, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := annotations[durationAnnotation]
	if gone || text == "" {
		delete(r.durations, uid)
	} else if text != r.durations[uid].text {
		long, err := time.ParseDuration(text)
		if err != nil {
			return
		}
		r.durations[uid] = duration{text, long, time.Now()}
	} else {
		return
	}
	for _, one := range r.containers {
		if one.uid == uid {
			r.plan(one)
		}
	}
}

// plan sets the timer of a container that runs. Its lock is held.
func (r *runtime) plan(one *container) {
	if one.end != nil {
		one.end.Stop()
		one.end = nil
	}
	known, has := r.durations[one.uid]
	if one.status.State != cri.ContainerState_CONTAINER_RUNNING || !has {
		return
	}
	from := time.Unix(0, one.status.StartedAt)
	if known.known.After(from) {
		from = known.known
	}
	one.end = time.AfterFunc(time.Until(from.Add(known.long)), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.durations[one.uid] == known {
			r.finish(one)
		}
	})
}

// finish ends a container that has run its time, with the status that the scenario asks for. The lock is held.
func (r *runtime) finish(one *container) {
	r.ends++
	if r.spec.CrashEvery == 0 || r.ends%r.spec.CrashEvery != 0 {
		r.exit(one, 0, "Completed")
		return
	}
	if owner := r.sandboxes[one.sandbox]; owner != nil {
		r.journal.note(r.node, owner.pod, "crashed")
	}
	r.exit(one, 1, "Error")
}

// exit ends a container that runs. Its lock is held.
func (r *runtime) exit(one *container, code int32, why string) {
	if one.end != nil {
		one.end.Stop()
		one.end = nil
	}
	running := one.status.State == cri.ContainerState_CONTAINER_RUNNING
	if running || one.status.State == cri.ContainerState_CONTAINER_CREATED {
		one.status.State, one.status.ExitCode, one.status.Reason = cri.ContainerState_CONTAINER_EXITED, code, why
		one.status.FinishedAt = time.Now().UnixNano()
		if owner := r.sandboxes[one.sandbox]; owner != nil && running {
			r.journal.note(r.node, owner.pod, "exited")
		}
	}
}

// name of the next sandbox or container. The lock is held.
func (r *runtime) name() string {
	r.made++
	return fmt.Sprintf("%s-%08d", r.node, r.made)
}

// drawn is between least and most: the same for the same pod, whatever else happens.
func (r *runtime) drawn(span [2]time.Duration, pod podName, what string) time.Duration {
	if span[1] <= span[0] {
		return span[0]
	}
	mixed := fnv.New64a()
	fmt.Fprint(mixed, r.node, "/", pod.name, "/", what)
	return span[0] + time.Duration(rand.New(rand.NewPCG(mixed.Sum64(), 1)).Int64N(int64(span[1]-span[0]+1)))
}

// begin waits for a place among the starts; the function that it returns gives the place back.
func (r *runtime) begin(ctx context.Context) (func(), error) {
	r.mu.Lock()
	slots := r.slots
	r.mu.Unlock()
	if slots == nil {
		return func() {}, nil
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func pause(ctx context.Context, long time.Duration) error {
	if long <= 0 {
		return nil
	}
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
