package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The CRI, as one kubelet sees the runtime of its node: in the same process, without gRPC. A kubelet whose life is over gets errors.

var errUnplayed = errors.New("played containers cannot do that")

type runtimeService struct {
	*runtime
	life *life
}

// enter is the beginning of every call: a slow runtime takes its time.
func (s *runtimeService) enter(ctx context.Context) error {
	if err := s.life.over(); err != nil {
		return err
	}
	return pause(ctx, s.now().Slow)
}

func (s *runtimeService) Version(context.Context, string) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "seatrial", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1"}, nil
}

func (s *runtimeService) Status(ctx context.Context, _ bool) (*cri.StatusResponse, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true},
	}}}, nil
}

func (s *runtimeService) RunPodSandbox(ctx context.Context, config *cri.PodSandboxConfig, _ string) (string, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	meta := config.GetMetadata()
	pod := podName{meta.Namespace, meta.Name, meta.Uid}
	done, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	if err := pause(ctx, s.drawn(s.now().Sandbox, pod, "sandbox")); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	made := &sandbox{id: s.name(), pod: pod, config: config, created: time.Now().UnixNano(), state: cri.PodSandboxState_SANDBOX_READY}
	made.ip = fmt.Sprintf("10.%d.%d.%d", s.made>>16&255, s.made>>8&255, s.made&255)
	s.sandboxes[made.id] = made
	s.journal.note(s.node, pod, "sandbox")
	return made.id, nil
}

func (s *runtimeService) StopPodSandbox(ctx context.Context, id string) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.sandboxes[id]; found != nil {
		found.state = cri.PodSandboxState_SANDBOX_NOTREADY
		for _, one := range s.containers {
			if one.sandbox == id {
				s.exit(one, 137, "Error")
			}
		}
	}
	return nil
}

func (s *runtimeService) RemovePodSandbox(ctx context.Context, id string) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, one := range s.containers {
		if one.sandbox == id {
			s.exit(one, 137, "Error")
			delete(s.containers, name)
		}
	}
	delete(s.sandboxes, id)
	return nil
}

func (s *runtimeService) PodSandboxStatus(ctx context.Context, id string, _ bool) (*cri.PodSandboxStatusResponse, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.sandboxes[id]
	if found == nil {
		return nil, fmt.Errorf("no sandbox %s: not found", id)
	}
	namespaces := found.config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	return &cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{
		Id: id, Metadata: found.config.Metadata, State: found.state, CreatedAt: found.created,
		Network: &cri.PodSandboxNetworkStatus{Ip: found.ip}, Labels: found.config.Labels, Annotations: found.config.Annotations,
		Linux: &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{Options: namespaces}},
	}}, nil
}

func (s *runtimeService) ListPodSandbox(ctx context.Context, filter *cri.PodSandboxFilter) ([]*cri.PodSandbox, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*cri.PodSandbox
	for id, one := range s.sandboxes {
		wrong := filter.GetId() != "" && filter.Id != id || filter.GetState() != nil && filter.State.State != one.state
		if !wrong && matches(filter.GetLabelSelector(), one.config.Labels) {
			found = append(found, &cri.PodSandbox{Id: id, Metadata: one.config.Metadata, State: one.state, CreatedAt: one.created,
				Labels: one.config.Labels, Annotations: one.config.Annotations})
		}
	}
	return found, nil
}

func (s *runtimeService) CreateContainer(ctx context.Context, sandboxID string, config *cri.ContainerConfig, _ *cri.PodSandboxConfig) (string, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	owner := s.sandboxes[sandboxID]
	if owner == nil {
		return "", fmt.Errorf("no sandbox %s: not found", sandboxID)
	}
	s.journal.note(s.node, owner.pod, "pulled")
	made := &container{sandbox: sandboxID, uid: owner.pod.uid, status: &cri.ContainerStatus{
		Id: s.name(), Metadata: config.Metadata, State: cri.ContainerState_CONTAINER_CREATED, CreatedAt: time.Now().UnixNano(),
		Image: config.Image, ImageRef: config.Image.GetImage(), ImageId: config.Image.GetImage(), Labels: config.Labels,
		Annotations: config.Annotations, LogPath: config.LogPath,
	}}
	s.containers[made.status.Id] = made
	s.journal.note(s.node, owner.pod, "container_created")
	return made.status.Id, nil
}

func (s *runtimeService) StartContainer(ctx context.Context, id string) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	one := s.containers[id]
	if one == nil {
		s.mu.Unlock()
		return fmt.Errorf("no container %s: not found", id)
	}
	owner, spec := s.sandboxes[one.sandbox], s.spec
	s.starts++
	fails := spec.FailEvery > 0 && s.starts%spec.FailEvery == 0
	s.mu.Unlock()
	done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := pause(ctx, s.drawn(spec.Start, owner.pod, "start")); err != nil {
		return err
	}
	s.machine.work(ctx, spec.Work)
	if fails {
		s.journal.note(s.node, owner.pod, "start_failed")
		return fmt.Errorf("the played runtime fails every start number %d, as the scenario says", spec.FailEvery)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.status.State == cri.ContainerState_CONTAINER_CREATED {
		one.status.State, one.status.StartedAt = cri.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
		s.journal.note(s.node, owner.pod, "started")
		s.plan(one)
	}
	return nil
}

func (s *runtimeService) StopContainer(ctx context.Context, id string, _ int64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.containers[id]; one != nil {
		s.exit(one, 137, "Error")
	}
	return nil
}

func (s *runtimeService) RemoveContainer(ctx context.Context, id string) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.containers[id]; one != nil {
		s.exit(one, 137, "Error")
		delete(s.containers, id)
	}
	return nil
}

func (s *runtimeService) ListContainers(ctx context.Context, filter *cri.ContainerFilter) ([]*cri.Container, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*cri.Container
	for id, one := range s.containers {
		wrong := filter.GetId() != "" && filter.Id != id || filter.GetState() != nil && filter.State.State != one.status.State ||
			filter.GetPodSandboxId() != "" && filter.PodSandboxId != one.sandbox
		if !wrong && matches(filter.GetLabelSelector(), one.status.Labels) {
			found = append(found, &cri.Container{Id: id, PodSandboxId: one.sandbox, Metadata: one.status.Metadata, Image: one.status.Image,
				ImageRef: one.status.ImageRef, ImageId: one.status.ImageId, State: one.status.State, CreatedAt: one.status.CreatedAt,
				Labels: one.status.Labels, Annotations: one.status.Annotations})
		}
	}
	return found, nil
}

func (s *runtimeService) ContainerStatus(ctx context.Context, id string, _ bool) (*cri.ContainerStatusResponse, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.containers[id]
	if one == nil {
		return nil, fmt.Errorf("no container %s: not found", id)
	}
	seen := *one.status //nolint:govet // a copy of plain fields: the kubelet reads it after we have changed ours
	return &cri.ContainerStatusResponse{Status: &seen}, nil
}

func matches(selector, labels map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return true
}

func (s *runtimeService) UpdateContainerResources(context.Context, string, *cri.ContainerResources) error {
	return nil
}
func (s *runtimeService) ExecSync(context.Context, string, []string, time.Duration) ([]byte, []byte, error) {
	return nil, nil, errUnplayed
}
func (s *runtimeService) Exec(context.Context, *cri.ExecRequest) (*cri.ExecResponse, error) {
	return nil, errUnplayed
}
func (s *runtimeService) Attach(context.Context, *cri.AttachRequest) (*cri.AttachResponse, error) {
	return nil, errUnplayed
}
func (s *runtimeService) ReopenContainerLog(context.Context, string) error { return nil }
func (s *runtimeService) CheckpointContainer(context.Context, *cri.CheckpointContainerRequest) error {
	return errUnplayed
}
func (s *runtimeService) GetContainerEvents(context.Context, chan *cri.ContainerEventResponse, func(cri.RuntimeService_GetContainerEventsClient)) error {
	return errUnplayed
}
func (s *runtimeService) PortForward(context.Context, *cri.PortForwardRequest) (*cri.PortForwardResponse, error) {
	return nil, errUnplayed
}
func (s *runtimeService) UpdatePodSandboxResources(context.Context, *cri.UpdatePodSandboxResourcesRequest) (*cri.UpdatePodSandboxResourcesResponse, error) {
	return &cri.UpdatePodSandboxResourcesResponse{}, nil
}
func (s *runtimeService) ContainerStats(context.Context, string) (*cri.ContainerStats, error) {
	return nil, errUnplayed
}
func (s *runtimeService) ListContainerStats(context.Context, *cri.ContainerStatsFilter) ([]*cri.ContainerStats, error) {
	return nil, nil
}
func (s *runtimeService) PodSandboxStats(context.Context, string) (*cri.PodSandboxStats, error) {
	return nil, errUnplayed
}
func (s *runtimeService) ListPodSandboxStats(context.Context, *cri.PodSandboxStatsFilter) ([]*cri.PodSandboxStats, error) {
	return nil, nil
}
func (s *runtimeService) ListMetricDescriptors(context.Context) ([]*cri.MetricDescriptor, error) {
	return nil, nil
}
func (s *runtimeService) ListPodSandboxMetrics(context.Context) ([]*cri.PodSandboxMetrics, error) {
	return nil, nil
}
func (s *runtimeService) UpdateRuntimeConfig(context.Context, *cri.RuntimeConfig) error { return nil }
func (s *runtimeService) RuntimeConfig(context.Context) (*cri.RuntimeConfigResponse, error) {
	return &cri.RuntimeConfigResponse{Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS}}, nil
}
func (s *runtimeService) Close(context.Context) error { return nil }

// imageService has the images that were pulled. A pull takes the size over the bandwidth.
type imageService struct {
	*runtime
	life *life
}

func (s *imageService) image(name string) *cri.Image {
	return &cri.Image{Id: name, RepoTags: []string{name}, Size: uint64(s.spec.Image), Spec: &cri.ImageSpec{Image: name}}
}

func (s *imageService) ListImages(context.Context, *cri.ImageFilter) ([]*cri.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*cri.Image
	for name := range s.images {
		found = append(found, s.image(name))
	}
	return found, s.life.over()
}

func (s *imageService) ImageStatus(_ context.Context, image *cri.ImageSpec, _ bool) (*cri.ImageStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.life.over(); err != nil || !s.images[image.Image] {
		return &cri.ImageStatusResponse{}, err
	}
	return &cri.ImageStatusResponse{Image: s.image(image.Image)}, nil
}

func (s *imageService) PullImage(ctx context.Context, image *cri.ImageSpec, _ *cri.AuthConfig, _ *cri.PodSandboxConfig) (string, error) {
	if err := s.life.over(); err != nil {
		return "", err
	}
	spec := s.now()
	s.mu.Lock()
	there := s.images[image.Image]
	s.mu.Unlock()
	if spec.Bandwidth > 0 && !there {
		if err := pause(ctx, time.Duration(float64(spec.Image)/float64(spec.Bandwidth)*float64(time.Second))); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images[image.Image] = true
	return image.Image, nil
}

func (s *imageService) RemoveImage(_ context.Context, image *cri.ImageSpec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.images, image.Image)
	return s.life.over()
}

func (s *imageService) ImageFsInfo(context.Context) (*cri.ImageFsInfoResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := []*cri.FilesystemUsage{{Timestamp: time.Now().UnixNano(), FsId: &cri.FilesystemIdentifier{Mountpoint: "/"},
		UsedBytes: &cri.UInt64Value{Value: uint64(int64(len(s.images)) * s.spec.Image)}, InodesUsed: &cri.UInt64Value{}}}
	return &cri.ImageFsInfoResponse{ImageFilesystems: used, ContainerFilesystems: used}, s.life.over()
}

func (s *imageService) Close(context.Context) error { return nil }
