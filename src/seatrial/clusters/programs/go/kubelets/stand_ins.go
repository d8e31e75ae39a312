package main

import (
	"context"
	"io"
	_ "unsafe" // for go:linkname

	cadvisor "github.com/google/cadvisor/info/v1"
	cadvisor2 "github.com/google/cadvisor/info/v2"
	"github.com/prometheus/client_golang/prometheus"
	noop "go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics"
	_ "k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	probetest "k8s.io/kubernetes/pkg/kubelet/prober/testing"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/pkg/util/oom"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/hostpath"
	"k8s.io/kubernetes/pkg/volume/projected"
	"k8s.io/kubernetes/pkg/volume/secret"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/mount-utils"
)

// What a kubelet finds on its machine, played: processors, memory, disks, mounts, cgroups. Nothing is mounted and no cgroup made.

//go:linkname registry k8s.io/component-base/metrics/legacyregistry.defaultRegistry
var registry metrics.KubeRegistry

// tolerant ignores a collector that is registered already. Each kubelet registers two of its own in the registry of the process,
// and as shipped the second kubelet panics there. Both are of the volumes and logs of pods, of which played containers have none.
type tolerant struct{ metrics.KubeRegistry }

func (t tolerant) CustomMustRegister(collectors ...metrics.StableCollector) {
	for _, collector := range collectors {
		_ = t.CustomRegister(collector)
	}
}

type tolerantPrometheus struct{ prometheus.Registerer }

func (t tolerantPrometheus) MustRegister(collectors ...prometheus.Collector) {
	for _, collector := range collectors {
		_ = t.Register(collector)
	}
}

func tolerateManyKubelets() {
	registry = tolerant{registry}
	prometheus.DefaultRegisterer = tolerantPrometheus{prometheus.DefaultRegisterer}
}

type body struct {
	io.ReadCloser
	closed func()
}

func (b *body) Close() error {
	defer b.closed()
	return b.ReadCloser.Close()
}

func (n *Node) dependencies(life *life, client, heartbeats clientset.Interface) *kubelet.Dependencies {
	return &kubelet.Dependencies{
		KubeClient:                client,
		HeartbeatClient:           heartbeats,
		ProbeManager:              probetest.FakeManager{},
		RemoteRuntimeService:      &runtimeService{n.runtime, life},
		RemoteImageService:        &imageService{n.runtime, life},
		CAdvisorInterface:         &hardware{n},
		OSInterface:               &containertest.FakeOS{},
		ContainerManager:          &containers{cm.NewStubContainerManagerWithDevicePluginResource(n.devices()), n},
		VolumePlugins:             volumes(),
		OOMAdjuster:               oom.NewFakeOOMAdjuster(),
		Mounter:                   &mount.FakeMounter{},
		Subpather:                 &subpath.FakeSubpath{},
		HostUtil:                  hostutil.NewFakeHostUtil(nil),
		PodStartupLatencyTracker:  kubeletutil.NewPodStartupLatencyTracker(),
		NodeStartupLatencyTracker: kubeletutil.NewNodeStartupLatencyTracker(),
		TracerProvider:            noop.NewTracerProvider(),
		Recorder:                  recorder(),
	}
}

func volumes() []volume.VolumePlugin {
	var all []volume.VolumePlugin
	for _, plugins := range [][]volume.VolumePlugin{
		emptydir.ProbeVolumePlugins(), hostpath.FakeProbeVolumePlugins(volume.VolumeConfig{}), secret.ProbeVolumePlugins(),
		downwardapi.ProbeVolumePlugins(), configmap.ProbeVolumePlugins(), projected.ProbeVolumePlugins(),
	} {
		all = append(all, plugins...)
	}
	return all
}

// configuration is the kubelet's own default, without what changes the machine: servers, iptables, cgroups.
func (n *Node) configuration() (*kubeletconfig.KubeletConfiguration, *flagsOf, error) {
	flags := options.NewKubeletFlags()
	config, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, nil, err
	}
	_, isolated := n.spec.Capacity["ephemeral-storage"]
	config.EvictionHard = eviction.DefaultEvictionHard
	config.EnableServer = false
	config.Port, config.ReadOnlyPort = 0, 0
	config.MakeIPTablesUtilChains = false
	config.CgroupsPerQOS = false
	config.EnforceNodeAllocatable = nil
	config.EnableControllerAttachDetach = false
	config.LocalStorageCapacityIsolation = isolated
	config.ResolverConfig = ""
	config.MaxPods = int32(n.amount("pods"))
	return config, flags, nil
}

func (n *Node) amount(name string) int64 {
	quantity, err := resource.ParseQuantity(n.spec.Capacity[name])
	if err != nil {
		return 0
	}
	return quantity.Value()
}

// devices are extended resources; the kubelet reports them as if a device plugin did.
func (n *Node) devices() v1.ResourceList {
	found := v1.ResourceList{}
	for name := range n.spec.Capacity {
		switch v1.ResourceName(name) {
		case v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods, v1.ResourceEphemeralStorage:
		default:
			found[v1.ResourceName(name)] = *resource.NewQuantity(n.amount(name), resource.DecimalSI)
		}
	}
	return found
}

type containers struct {
	cm.ContainerManager
	node *Node
}

func (c *containers) GetCapacity(isolated bool) v1.ResourceList {
	if !isolated {
		return v1.ResourceList{}
	}
	return v1.ResourceList{v1.ResourceEphemeralStorage: *resource.NewQuantity(c.node.amount("ephemeral-storage"), resource.BinarySI)}
}

// hardware is what cAdvisor would find.
type hardware struct{ node *Node }

const (
	diskBytes  = 100 << 30
	diskInodes = 10_000_000
)

// disk is 90 % free, or 1 % when it is full: the kubelet's thresholds are 10 % and 15 %.
func (h *hardware) disk() cadvisor2.FsInfo {
	available, inodes, free := uint64(diskBytes)*9/10, uint64(diskInodes), uint64(diskInodes)*9/10
	if h.node.runtime.diskFull() {
		available = diskBytes / 100
	}
	return cadvisor2.FsInfo{Device: "played", Mountpoint: "/", Capacity: diskBytes, Available: available,
		Usage: diskBytes - available, Inodes: &inodes, InodesFree: &free}
}

func (h *hardware) Start() error { return nil }

func (h *hardware) MachineInfo() (*cadvisor.MachineInfo, error) {
	return &cadvisor.MachineInfo{NumCores: int(h.node.amount("cpu")), MemoryCapacity: uint64(h.node.amount("memory")),
		MachineID: h.node.spec.Name, SystemUUID: h.node.spec.Name, BootID: h.node.spec.Name}, nil
}

func (h *hardware) VersionInfo() (*cadvisor.VersionInfo, error) {
	return &cadvisor.VersionInfo{KernelVersion: "played", ContainerOsVersion: "played"}, nil
}

func (h *hardware) ContainerInfoV2(name string, _ cadvisor2.RequestOptions) (map[string]cadvisor2.ContainerInfo, error) {
	now := metav1.Now().Time
	return map[string]cadvisor2.ContainerInfo{name: {
		Spec:  cadvisor2.ContainerSpec{CreationTime: now, HasMemory: true, Memory: cadvisor2.MemorySpec{Limit: uint64(h.node.amount("memory"))}},
		Stats: []*cadvisor2.ContainerStats{{Timestamp: now, Memory: &cadvisor.MemoryStats{}}},
	}}, nil
}

func (h *hardware) GetRequestedContainersInfo(string, cadvisor2.RequestOptions) (map[string]*cadvisor.ContainerInfo, error) {
	return nil, nil
}
func (h *hardware) ImagesFsInfo(context.Context) (cadvisor2.FsInfo, error)    { return h.disk(), nil }
func (h *hardware) RootFsInfo() (cadvisor2.FsInfo, error)                     { return h.disk(), nil }
func (h *hardware) ContainerFsInfo(context.Context) (cadvisor2.FsInfo, error) { return h.disk(), nil }
func (h *hardware) GetDirFsInfo(string) (cadvisor2.FsInfo, error)             { return h.disk(), nil }
