// Many real kubelets in one process, over a container runtime that plays containers, or over containerd.
//
// A file says which nodes there are and what their runtimes do. Whoever changes it writes a line to the Unix socket, and is
// answered once the change is made: "ok", or what is wrong. The API server is the only address that is dialled.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/capabilities"
)

// Wanted is the file: the nodes, and the processors that all of them share (0: each node has its own).
type Wanted struct {
	MachineCores float64        `json:"machineCores"`
	Containerd   ContainerdSpec `json:"containerd"` // of the nodes with real containers
	Nodes        []NodeSpec     `json:"nodes"`
}

func main() {
	file := flag.String("config", "kubelets.json", "the nodes and what their runtimes do")
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	control := flag.String("control", "kubelets.sock", "Unix socket: a line in, `ok` or a complaint out")
	root := flag.String("root", "kubelets", "directory of the kubelets' own directories")
	log := flag.String("runtime-log", "runtime.log", "what the played runtimes did, with times")
	cert := flag.String("tls-cert-file", "", "certificate of /metrics")
	key := flag.String("tls-private-key-file", "", "its key")
	klog.InitFlags(nil)
	flag.Parse()
	if err := run(*file, *kubeconfig, *control, *root, *log, *cert, *key); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file, kubeconfig, control, root, log, cert, key string) error {
	tolerateManyKubelets()
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	journal, err := newJournal(log)
	if err != nil {
		return err
	}
	defer journal.close()
	fleet := &Fleet{file: file, root: root, access: access, journal: journal, nodes: map[string]*Node{}}
	if err := fleet.apply(ctx); err != nil {
		return err
	}
	if err := fleet.listen(ctx, control); err != nil {
		return err
	}
	if err := serveMetrics(cert, key); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// Fleet is every node of this process.
type Fleet struct {
	mu      sync.Mutex
	file    string
	root    string
	access  *rest.Config
	journal *journal
	machine *machine // that all nodes share, if they do
	nodes   map[string]*Node
}

// apply makes the nodes what the file says.
func (f *Fleet) apply(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := os.ReadFile(f.file)
	if err != nil {
		return err
	}
	var wanted Wanted
	if err := json.Unmarshal(text, &wanted); err != nil {
		return fmt.Errorf("%s: %w", f.file, err)
	}
	if f.machine == nil && wanted.MachineCores > 0 {
		f.machine = newMachine(wanted.MachineCores)
	}
	there := map[string]bool{}
	for _, spec := range wanted.Nodes {
		there[spec.Name] = true
		node := f.nodes[spec.Name]
		if node == nil {
			node = newNode(spec, f, wanted.Containerd)
			f.nodes[spec.Name] = node
		}
		if err := node.become(ctx, spec); err != nil {
			return fmt.Errorf("node %s: %w", spec.Name, err)
		}
	}
	for name, node := range f.nodes {
		if !there[name] {
			node.remove()
			delete(f.nodes, name)
		}
	}
	return nil
}

func (f *Fleet) listen(ctx context.Context, path string) error {
	_ = os.Remove(path) // of a process that was killed
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go f.answer(ctx, connection)
		}
	}()
	return nil
}

func (f *Fleet) answer(ctx context.Context, connection net.Conn) {
	defer connection.Close()
	lines := bufio.NewScanner(connection)
	for lines.Scan() {
		said := "ok"
		if err := f.apply(ctx); err != nil {
			said = err.Error()
		}
		fmt.Fprintf(connection, "%s\n", said)
	}
}

// serveMetrics listens on the loopback interface, on a port that the kernel chooses.
func serveMetrics(cert, key string) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		return err
	}
	served := http.NewServeMux()
	served.Handle("/metrics", legacyregistry.Handler())
	served.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	go func() { _ = http.Serve(listener, served) }()
	return nil
}
