package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	remote "k8s.io/cri-client/pkg"
	kubetypes "k8s.io/kubelet/pkg/types"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// Containers that are real. All nodes share one containerd, and each kubelet sees only what it made, by a label. What the kubelet
// asks for is passed on with three changes: cgroups are below that of the cluster, processors and memory are not limited (with a
// few millicores a container takes minutes to start), and our image is told how long it runs.

const (
	nodeLabel             = "seatrial.dev/node"
	waitsLabel            = "seatrial.dev/waits" // a container that runs until it is told to end
	applicationAnnotation = "seatrial.dev/application"
	criTimeout            = 2 * time.Minute // the kubelet's own
	endTimeout            = 30              // seconds between SIGTERM and SIGKILL
	killed                = 137             // exit code of a container that the kubelet ended
)

// ContainerdSpec says where containerd is, if some nodes have real containers.
type ContainerdSpec struct {
	Socket string `json:"socket"`
	Cgroup string `json:"cgroup"`
	Image  string `json:"image"` // ours, imported before the first kubelet
}

// realContainers are those of one node. They outlive kubelets.
type realContainers struct {
	ContainerdSpec
	node    string
	journal *journal
	mu      sync.Mutex
	pods    map[string]podName // container → its pod
	running map[string]bool    // containers that were started, and not seen to have ended
	told    map[string]string  // uid of a pod → how long it runs, as it was told
}

func newRealContainers(spec ContainerdSpec, node string, journal *journal) *realContainers {
	return &realContainers{ContainerdSpec: spec, node: node, journal: journal, pods: map[string]podName{},
		running: map[string]bool{}, told: map[string]string{}}
}

func (r *realContainers) connect(ctx context.Context) (internalapi.RuntimeService, error) {
	return remote.NewRemoteRuntimeService(ctx, "unix://"+r.Socket, criTimeout, nil, false)
}

// services are connections of one kubelet, closed when its life ends.
func (r *realContainers) services(life *life) (internalapi.RuntimeService, internalapi.ImageManagerService, error) {
	runtime, err := r.connect(life.ctx)
	if err != nil {
		return nil, nil, err
	}
	images, err := remote.NewRemoteImageService(life.ctx, "unix://"+r.Socket, criTimeout, nil, false)
	if err != nil {
		return nil, nil, err
	}
	if err := r.await(life.ctx, images); err != nil {
		return nil, nil, err
	}
	context.AfterFunc(life.ctx, func() {
		_ = runtime.Close(context.Background())
		_ = images.Close(context.Background())
	})
	return &realRuntime{runtime, r}, &realImages{images}, nil
}

// await returns when the CRI knows our image, a moment after it was imported: without it containerd would ask a registry.
func (r *realContainers) await(ctx context.Context, images internalapi.ImageManagerService) error {
	for range 200 {
		found, err := images.ImageStatus(ctx, &cri.ImageSpec{Image: r.Image}, false)
		if err == nil && found.GetImage() != nil {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("containerd does not find the image %s", r.Image)
}

// hear learns how long the pods of a gang, or with checkpoints, run: that is known only when they run already.
func (r *realContainers) hear(uid string, annotations map[string]string, gone bool) {
	text, played := annotations[durationAnnotation], annotations[applicationAnnotation] != ""
	r.mu.Lock()
	defer r.mu.Unlock()
	if gone || text == "" {
		delete(r.told, uid)
	} else if long, err := time.ParseDuration(text); err == nil && played && r.told[uid] != text {
		r.told[uid] = text
		time.AfterFunc(long, func() { r.end(uid, text) })
	}
}

func (r *realContainers) end(uid, text string) {
	r.mu.Lock()
	current := r.told[uid] == text
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), criTimeout)
	defer cancel()
	runtime, err := r.connect(ctx)
	if err != nil || !current {
		return
	}
	defer runtime.Close(ctx)
	found, _ := runtime.ListContainers(ctx, &cri.ContainerFilter{LabelSelector: map[string]string{
		nodeLabel: r.node, waitsLabel: "true", kubetypes.KubernetesPodUIDLabel: uid}})
	for _, one := range found {
		_ = runtime.StopContainer(ctx, one.Id, endTimeout)
	}
}

// clear ends all containers: the node is gone.
func (r *realContainers) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), criTimeout)
	defer cancel()
	runtime, err := r.connect(ctx)
	if err != nil {
		return
	}
	defer runtime.Close(ctx)
	found, _ := runtime.ListPodSandbox(ctx, &cri.PodSandboxFilter{LabelSelector: r.own(nil)})
	var all sync.WaitGroup
	for _, one := range found {
		all.Go(func() {
			_ = runtime.StopPodSandbox(ctx, one.Id)
			_ = runtime.RemovePodSandbox(ctx, one.Id)
		})
	}
	all.Wait()
}

// own are labels with that of the node.
func (r *realContainers) own(labels map[string]string) map[string]string {
	made := map[string]string{nodeLabel: r.node}
	maps.Copy(made, labels)
	return made
}

func (r *realContainers) note(id, what string) {
	r.mu.Lock()
	pod, known := r.pods[id]
	r.mu.Unlock()
	if known {
		r.journal.note(r.node, pod, what)
	}
}

// ended says whether a container was running as far as we knew, and forgets it.
func (r *realContainers) ended(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.running[id]
	delete(r.running, id)
	return was
}

func nameOf(meta *cri.PodSandboxMetadata) podName {
	return podName{meta.Namespace, meta.Name, meta.Uid}
}

// realRuntime is containerd as one kubelet sees it.
type realRuntime struct {
	internalapi.RuntimeService
	of *realContainers
}

func (s *realRuntime) RunPodSandbox(ctx context.Context, config *cri.PodSandboxConfig, handler string) (string, error) {
	config.Labels = s.of.own(config.Labels)
	if config.Linux == nil {
		config.Linux = &cri.LinuxPodSandboxConfig{}
	}
	config.Linux.CgroupParent = s.of.Cgroup + "/" + s.of.node
	id, err := s.RuntimeService.RunPodSandbox(ctx, config, handler)
	if err == nil {
		s.of.journal.note(s.of.node, nameOf(config.Metadata), "sandbox")
	}
	return id, err
}

func (s *realRuntime) ListPodSandbox(ctx context.Context, filter *cri.PodSandboxFilter) ([]*cri.PodSandbox, error) {
	asked := &cri.PodSandboxFilter{Id: filter.GetId(), State: filter.GetState(), LabelSelector: s.of.own(filter.GetLabelSelector())}
	return s.RuntimeService.ListPodSandbox(ctx, asked)
}

func (s *realRuntime) CreateContainer(ctx context.Context, sandbox string, config *cri.ContainerConfig, of *cri.PodSandboxConfig) (string, error) {
	pod := nameOf(of.Metadata)
	s.of.journal.note(s.of.node, pod, "pulled")
	config.Labels = s.of.own(config.Labels)
	if len(config.Command)+len(config.Args) == 0 { // our image: how long it runs is its argument
		if long := of.Annotations[durationAnnotation]; long != "" {
			config.Args = []string{long}
		} else {
			config.Labels[waitsLabel] = "true"
		}
	}
	if limits := config.GetLinux().GetResources(); limits != nil {
		limits.CpuQuota, limits.MemoryLimitInBytes, limits.MemorySwapLimitInBytes, limits.Unified = 0, 0, 0, nil
	}
	of.Linux.CgroupParent = s.of.Cgroup + "/" + s.of.node
	id, err := s.RuntimeService.CreateContainer(ctx, sandbox, config, of)
	if err == nil {
		s.of.mu.Lock()
		s.of.pods[id] = pod
		s.of.mu.Unlock()
		s.of.note(id, "container_created")
	}
	return id, err
}

func (s *realRuntime) StartContainer(ctx context.Context, id string) error {
	if err := s.RuntimeService.StartContainer(ctx, id); err != nil {
		s.of.note(id, "start_failed")
		return err
	}
	s.of.note(id, "started")
	s.of.mu.Lock()
	s.of.running[id] = true
	s.of.mu.Unlock()
	return nil
}

func (s *realRuntime) RemoveContainer(ctx context.Context, id string) error {
	s.of.mu.Lock()
	delete(s.of.pods, id)
	delete(s.of.running, id)
	s.of.mu.Unlock()
	return s.RuntimeService.RemoveContainer(ctx, id)
}

func (s *realRuntime) ListContainers(ctx context.Context, filter *cri.ContainerFilter) ([]*cri.Container, error) {
	asked := &cri.ContainerFilter{Id: filter.GetId(), State: filter.GetState(), PodSandboxId: filter.GetPodSandboxId(),
		LabelSelector: s.of.own(filter.GetLabelSelector())}
	return s.RuntimeService.ListContainers(ctx, asked)
}

// ContainerStatus is asked for by the kubelet when a container has ended: that is noted, once.
func (s *realRuntime) ContainerStatus(ctx context.Context, id string, verbose bool) (*cri.ContainerStatusResponse, error) {
	found, err := s.RuntimeService.ContainerStatus(ctx, id, verbose)
	if found.GetStatus().GetState() == cri.ContainerState_CONTAINER_EXITED && s.of.ended(id) {
		s.of.note(id, "exited")
		if found.Status.ExitCode != 0 && found.Status.ExitCode != killed {
			s.of.note(id, "crashed")
		}
	}
	return found, err
}

func (s *realRuntime) ListContainerStats(ctx context.Context, filter *cri.ContainerStatsFilter) ([]*cri.ContainerStats, error) {
	asked := &cri.ContainerStatsFilter{Id: filter.GetId(), PodSandboxId: filter.GetPodSandboxId(),
		LabelSelector: s.of.own(filter.GetLabelSelector())}
	return s.RuntimeService.ListContainerStats(ctx, asked)
}

func (s *realRuntime) ListPodSandboxStats(ctx context.Context, filter *cri.PodSandboxStatsFilter) ([]*cri.PodSandboxStats, error) {
	asked := &cri.PodSandboxStatsFilter{Id: filter.GetId(), LabelSelector: s.of.own(filter.GetLabelSelector())}
	return s.RuntimeService.ListPodSandboxStats(ctx, asked)
}

// RuntimeConfig is unknown to containerd before 2.0.
func (s *realRuntime) RuntimeConfig(context.Context) (*cri.RuntimeConfigResponse, error) {
	return &cri.RuntimeConfigResponse{Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS}}, nil
}

type realImages struct {
	internalapi.ImageManagerService
}

var errNoPull = errors.New("only seatrial's own image is here, and nothing is pulled")

func (s *realImages) PullImage(_ context.Context, image *cri.ImageSpec, _ *cri.AuthConfig, _ *cri.PodSandboxConfig) (string, error) {
	return "", fmt.Errorf("%s: %w", image.GetImage(), errNoPull)
}

func (s *realImages) RemoveImage(context.Context, *cri.ImageSpec) error { return nil }

// ownFiles is the file system below a node's directory. Beside logs of containers there, a kubelet keeps links to them in
// /var/log/containers, and removes the links that it does not know: those of the machine's own kubelet.
type ownFiles struct {
	kubecontainer.RealOS
	root string
}

func (o ownFiles) outside(path string) bool {
	return !strings.HasPrefix(path, o.root+string(os.PathSeparator))
}

func (o ownFiles) MkdirAll(path string, mode os.FileMode) error {
	if o.outside(path) {
		return nil
	}
	return o.RealOS.MkdirAll(path, mode)
}

func (o ownFiles) Symlink(old, made string) error {
	if o.outside(made) {
		return nil
	}
	return o.RealOS.Symlink(old, made)
}

func (o ownFiles) Glob(pattern string) ([]string, error) {
	if o.outside(pattern) {
		return nil, nil
	}
	return o.RealOS.Glob(pattern)
}
