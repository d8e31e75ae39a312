package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// NodeSpec is one entry of the file. Times are nanoseconds.
type NodeSpec struct {
	Name     string            `json:"name"`
	Capacity map[string]string `json:"capacity"`
	Labels   map[string]string `json:"labels"`
	Taints   []v1.Taint        `json:"taints"`
	Stopped  bool              `json:"stopped"` // no kubelet; its containers run on
	Runtime  RuntimeSpec       `json:"runtime"`
	Real     bool              `json:"real"` // containers of containerd; else they are played
}

// Node is one node: the runtime, which stays, and the kubelet, which comes and goes.
type Node struct {
	spec    NodeSpec
	fleet   *Fleet
	root    string
	runtime *runtime
	real    *realContainers // nil where they are played
	life    *life           // of the kubelet that runs; nil without one
}

func newNode(spec NodeSpec, fleet *Fleet, containerd ContainerdSpec) *Node {
	work := fleet.machine
	if work == nil {
		cores := resource.MustParse(spec.Capacity["cpu"])
		work = newMachine(float64(cores.MilliValue()) / 1000)
	}
	root, _ := filepath.Abs(filepath.Join(fleet.root, spec.Name))
	node := &Node{spec: spec, fleet: fleet, root: root, runtime: newRuntime(spec.Name, work, fleet.journal)}
	if spec.Real {
		node.real = newRealContainers(containerd, spec.Name, fleet.journal)
	}
	return node
}

// become starts or stops the kubelet, and tells the runtime what to do from now on.
func (n *Node) become(ctx context.Context, spec NodeSpec) error {
	n.spec = spec
	n.runtime.become(spec.Runtime)
	if spec.Stopped {
		n.stop()
	} else if n.life == nil {
		return n.start(ctx)
	}
	return nil
}

func (n *Node) stop() {
	if n.life != nil {
		n.life.end()
		n.life = nil
	}
}

func (n *Node) remove() {
	n.stop()
	n.runtime.clear()
	if n.real != nil {
		n.real.clear()
	}
	_ = os.RemoveAll(n.root)
}

// life is that of one kubelet. A kubelet has no end of its own: some of its goroutines run for ever. When its life ends, it can
// reach neither API server nor runtime any more, as after `kill -9`; the next kubelet of the node is a new one.
type life struct {
	ctx context.Context
	end context.CancelFunc
}

var errStopped = errors.New("this kubelet was stopped")

func (l *life) over() error {
	if l.ctx.Err() != nil {
		return errStopped
	}
	return nil
}

// gate is a transport that ends with its kubelet, with all requests and watches that are under way.
type gate struct {
	life *life
	next http.RoundTripper
}

func (g *gate) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := g.life.over(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(request.Context())
	unhook := context.AfterFunc(g.life.ctx, cancel)
	answer, err := g.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		unhook()
		cancel()
		return nil, err
	}
	answer.Body = &body{answer.Body, func() { unhook(); cancel() }}
	return answer, nil
}

func (n *Node) start(ctx context.Context) error {
	living, end := context.WithCancel(ctx)
	life := &life{living, end}
	config, flags, err := n.configuration()
	if err != nil {
		end()
		return err
	}
	client, heartbeats, err := n.clients(life)
	if err != nil {
		end()
		return err
	}
	deps := n.dependencies(life, client, heartbeats)
	if n.real != nil {
		deps.OSInterface = ownFiles{root: n.root}
		deps.RemoteRuntimeService, deps.RemoteImageService, err = n.real.services(life)
		if err != nil {
			end()
			return err
		}
	}
	if err := os.MkdirAll(n.root, 0o700); err != nil {
		end()
		return err
	}
	// An address as the host name keeps the kubelet from asking a name server for its own.
	made, err := kubelet.NewMainKubelet(
		living, config, deps, &flags.ContainerRuntimeOptions, "127.0.0.1", types.NodeName(n.spec.Name), nil, "", "",
		filepath.Join(n.root, "pki"), n.root, filepath.Join(n.root, "logs"), "", "", true, n.spec.Taints, nil, "", false, false,
		flags.MinimumGCAge, flags.MaxPerPodContainerCount, flags.MaxContainerCount, n.labels(), config.NodeStatusMaxImages, false,
	)
	if err != nil {
		end()
		return err
	}
	made.BirthCry()
	made.StartGarbageCollection(living)
	go made.Run(living, n.overhear(living, deps.PodConfig.Updates()))
	n.life = life
	return nil
}

func (n *Node) labels() map[string]string {
	labels := map[string]string{v1.LabelHostname: n.spec.Name}
	for name, value := range n.spec.Labels {
		labels[name] = value
	}
	return labels
}

// overhear passes on what the kubelet learns of its pods, and tells the runtime how long they run: that is in an annotation, which
// may come after the pod has started, and which the CRI does not carry then.
func (n *Node) overhear(ctx context.Context, updates <-chan kubetypes.PodUpdate) <-chan kubetypes.PodUpdate {
	passed := make(chan kubetypes.PodUpdate)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case update := <-updates:
				for _, pod := range update.Pods {
					n.hear(string(pod.UID), pod.Annotations, update.Op == kubetypes.REMOVE)
				}
				select {
				case passed <- update:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return passed
}

func (n *Node) hear(uid string, annotations map[string]string, gone bool) {
	if n.real != nil {
		n.real.hear(uid, annotations, gone)
	} else {
		n.runtime.hear(uid, annotations, gone)
	}
}

// clients are those of a kubelet: one with its limits (50 requests per second, bursts of 100), one for heartbeats without.
func (n *Node) clients(life *life) (clientset.Interface, clientset.Interface, error) {
	access := rest.CopyConfig(n.fleet.access)
	access.UserAgent = "kubelet"
	access.QPS, access.Burst = 50, 100
	access.ContentType, access.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	access.Wrap(func(next http.RoundTripper) http.RoundTripper { return &gate{life, next} })
	client, err := clientset.NewForConfig(access)
	if err != nil {
		return nil, nil, err
	}
	beats := rest.CopyConfig(access)
	beats.QPS, beats.Timeout = -1, 10*time.Second
	heartbeats, err := clientset.NewForConfig(beats)
	return client, heartbeats, err
}

type flagsOf = options.KubeletFlags

// recorder drops events: with a real one each kubelet reads the kernel's log for processes that ran out of memory, and those are
// not its containers'.
func recorder() record.EventRecorderLogger { return &record.FakeRecorder{} }

// journal is the file of what the runtimes did, a line each: nanoseconds, node, namespace, pod, uid, what.
type journal struct {
	mu   sync.Mutex
	file *os.File
}

func newJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{file: file}, err
}

func (j *journal) note(node string, pod podName, what string) {
	line := fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\n", time.Now().UnixNano(), node, pod.namespace, pod.name, pod.uid, what)
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = j.file.WriteString(line)
}

func (j *journal) close() { _ = j.file.Close() }
