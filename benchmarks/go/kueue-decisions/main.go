// kueue-decisions decides cases with Kueue's own scheduler: it reads one JSON case per line and writes one JSON answer per line.
//
// A case has cohorts, ClusterQueues, admitted workloads and one pending workload per queue. The answer says, for each pending
// workload alone, its flavors, mode and preemption targets, and for one cycle with all of them, who is admitted, who is evicted for
// whom, and where the others wait. Where Go's order of maps decides, answers differ between attempts: all of them are given.
//
// benchmarks/kueue_decisions.py makes the cases and compares the answers with the simulator's.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	_ "unsafe" // go:linkname

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/flavorassigner"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption"
	"sigs.k8s.io/kueue/pkg/util/routine"
	"sigs.k8s.io/kueue/pkg/util/wait"
	"sigs.k8s.io/kueue/pkg/workload"
)

// One cycle of the scheduler, and the wrapper of its writes: both are private.

//go:linkname schedule sigs.k8s.io/kueue/pkg/scheduler.(*Scheduler).schedule
func schedule(s *scheduler.Scheduler, ctx context.Context) wait.SpeedSignal

//go:linkname setWrapper sigs.k8s.io/kueue/pkg/scheduler.(*Scheduler).setAdmissionRoutineWrapper
func setWrapper(s *scheduler.Scheduler, wrapper routine.Wrapper)

const (
	namespace = "default"
	attempts  = 3
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type quota struct {
	Flavor, Resource string
	Nominal          int64
	Borrow, Lend     *int64
}

type cohort struct {
	Name, Parent string
	Weight       string
	Quotas       []quota
}

type queue struct {
	Name, Cohort               string
	Weight                     string
	Groups                     [][]string // flavors of each resource group, in order
	Quotas                     []quota
	BorrowsFirst               bool `json:"borrows_first"`
	PreemptsFirst              bool `json:"preempts_first"`
	Within, Reclaim, Borrowing string
	Threshold                  *int32
	Strict                     bool
}

type job struct {
	Name, Queue, UID string
	Priority         int32
	Created          int64 // whole seconds
	Reserved         int64
	Evicted          bool
	Requests         map[string]int64
	Flavors          map[string]string // resource → flavor, of admitted workloads
}

type input struct {
	Fair     bool
	Cohorts  []cohort
	Queues   []queue
	Admitted []job
	Pending  []job
}

type target struct {
	Workload string `json:"workload"`
	Reason   string `json:"reason"`
}

type nomination struct {
	Mode      string            `json:"mode"`
	Borrowing int               `json:"borrowing"`
	Flavors   map[string]string `json:"flavors"`
	Targets   []target          `json:"targets"`
	Pending   bool              `json:"pending"` // flavors are left to try
}

type eviction struct {
	Workload string `json:"workload"`
	By       string `json:"by"`
	Reason   string `json:"reason"`
}

type cycle struct {
	Admitted     map[string]map[string]string `json:"admitted"`
	Evicted      []eviction                   `json:"evicted"`
	Heap         []string                     `json:"heap"`
	Inadmissible []string                     `json:"inadmissible"`
}

type answer struct {
	Nominations map[string][]json.RawMessage `json:"nominations"` // pending workload → the different answers
	Cycles      []json.RawMessage            `json:"cycles"`
	Panic       string                       `json:"panic,omitempty"`
}

// server is the API server as the scheduler needs it: it knows the workloads, and keeps what is written.
type server struct {
	client.Client
	mutex     sync.Mutex
	workloads map[string]*kueue.Workload
	written   []*kueue.Workload
}

func (s *server) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch o := object.(type) {
	case *corev1.Namespace:
		o.Name = key.Name
	case *kueue.Workload:
		s.workloads[key.Name].DeepCopyInto(o)
	}
	return nil
}

func (s *server) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (s *server) Status() client.SubResourceWriter { return &status{server: s} }

type status struct {
	client.SubResourceWriter
	server *server
}

func (s *status) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	s.server.mutex.Lock()
	defer s.server.mutex.Unlock()
	s.server.written = append(s.server.written, object.(*kueue.Workload).DeepCopy())
	return nil
}

func amount(name string, value int64) resource.Quantity {
	if name == "cpu" {
		return *resource.NewMilliQuantity(value, resource.DecimalSI)
	}
	return *resource.NewQuantity(value, resource.DecimalSI)
}

func pointer(name string, value *int64) *resource.Quantity {
	if value == nil {
		return nil
	}
	return ptr.To(amount(name, *value))
}

func groups(quotas []quota, flavors [][]string) []kueue.ResourceGroup {
	var made []kueue.ResourceGroup
	for _, names := range flavors {
		group := kueue.ResourceGroup{}
		for _, name := range names {
			flavor := kueue.FlavorQuotas{Name: kueue.ResourceFlavorReference(name)}
			for _, q := range quotas {
				if q.Flavor == name {
					flavor.Resources = append(flavor.Resources, kueue.ResourceQuota{
						Name: corev1.ResourceName(q.Resource), NominalQuota: amount(q.Resource, q.Nominal),
						BorrowingLimit: pointer(q.Resource, q.Borrow), LendingLimit: pointer(q.Resource, q.Lend),
					})
					if !slices.Contains(group.CoveredResources, corev1.ResourceName(q.Resource)) {
						group.CoveredResources = append(group.CoveredResources, corev1.ResourceName(q.Resource))
					}
				}
			}
			group.Flavors = append(group.Flavors, flavor)
		}
		made = append(made, group)
	}
	return made
}

func sharing(weight string) *kueue.FairSharing {
	return &kueue.FairSharing{Weight: ptr.To(resource.MustParse(weight))}
}

func flavorsOf(quotas []quota) [][]string {
	var names []string
	for _, q := range quotas {
		if !slices.Contains(names, q.Flavor) {
			names = append(names, q.Flavor)
		}
	}
	return [][]string{names}
}

func (c cohort) object() *kueue.Cohort {
	made := &kueue.Cohort{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}
	made.Spec.ParentName = kueue.CohortReference(c.Parent)
	made.Spec.FairSharing = sharing(c.Weight)
	if len(c.Quotas) > 0 {
		made.Spec.ResourceGroups = groups(c.Quotas, flavorsOf(c.Quotas))
	}
	return made
}

func (q queue) object() *kueue.ClusterQueue {
	stops := map[bool]kueue.FlavorFungibilityPolicy{true: kueue.MayStopSearch, false: kueue.TryNextFlavor}
	made := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: q.Name}}
	made.Spec.CohortName = kueue.CohortReference(q.Cohort)
	made.Spec.ResourceGroups = groups(q.Quotas, q.Groups)
	made.Spec.NamespaceSelector = &metav1.LabelSelector{}
	made.Spec.FairSharing = sharing(q.Weight)
	made.Spec.FlavorFungibility = &kueue.FlavorFungibility{
		WhenCanBorrow: stops[q.BorrowsFirst], WhenCanPreempt: stops[q.PreemptsFirst],
	}
	made.Spec.Preemption = &kueue.ClusterQueuePreemption{
		WithinClusterQueue:  kueue.PreemptionPolicy(q.Within),
		ReclaimWithinCohort: kueue.PreemptionPolicy(q.Reclaim),
		BorrowWithinCohort: &kueue.BorrowWithinCohort{
			Policy: kueue.BorrowWithinCohortPolicy(q.Borrowing), MaxPriorityThreshold: q.Threshold,
		},
	}
	made.Spec.QueueingStrategy = kueue.BestEffortFIFO
	if q.Strict {
		made.Spec.QueueingStrategy = kueue.StrictFIFO
	}
	return made
}

func at(second int64) metav1.Time {
	return metav1.NewTime(epoch.Add(time.Duration(second) * time.Second))
}

func (j job) object() *kueue.Workload {
	made := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
		Name: j.Name, Namespace: namespace, UID: types.UID(j.UID), CreationTimestamp: at(j.Created),
	}}
	requests := corev1.ResourceList{}
	for name, value := range j.Requests {
		requests[corev1.ResourceName(name)] = amount(name, value)
	}
	set := kueue.PodSet{Name: "main", Count: 1}
	set.Template.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests}}}
	made.Spec.PodSets = []kueue.PodSet{set}
	made.Spec.QueueName = kueue.LocalQueueName(j.Queue)
	made.Spec.Priority = ptr.To(j.Priority)
	made.Spec.Active = ptr.To(true)
	if j.Flavors == nil {
		return made
	}
	flavors := map[corev1.ResourceName]kueue.ResourceFlavorReference{}
	for name, flavor := range j.Flavors {
		flavors[corev1.ResourceName(name)] = kueue.ResourceFlavorReference(flavor)
	}
	made.Status.Admission = &kueue.Admission{
		ClusterQueue: kueue.ClusterQueueReference(j.Queue),
		PodSetAssignments: []kueue.PodSetAssignment{{
			Name: "main", Flavors: flavors, ResourceUsage: requests, Count: ptr.To[int32](1),
		}},
	}
	conditions := []string{kueue.WorkloadQuotaReserved, kueue.WorkloadAdmitted}
	if j.Evicted {
		conditions = append(conditions, kueue.WorkloadEvicted)
	}
	for _, name := range conditions {
		made.Status.Conditions = append(made.Status.Conditions, metav1.Condition{
			Type: name, Status: metav1.ConditionTrue, LastTransitionTime: at(j.Reserved), Reason: "Preempted",
		})
	}
	return made
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (in input) fairSharing() *config.FairSharing {
	if in.Fair {
		return &config.FairSharing{}
	}
	return nil
}

func (in input) server() *server {
	made := &server{workloads: map[string]*kueue.Workload{}}
	for _, jobs := range [][]job{in.Admitted, in.Pending} {
		for _, j := range jobs {
			made.workloads[j.Name] = j.object()
		}
	}
	return made
}

func (in input) cache(ctx context.Context, api *server) *schdcache.Cache {
	log := ctrl.LoggerFrom(ctx)
	made := schdcache.New(api, schdcache.WithFairSharing(in.Fair))
	known := map[string]bool{}
	for _, q := range in.Queues {
		for _, each := range q.Quotas {
			if !known[each.Flavor] {
				known[each.Flavor] = true
				made.AddOrUpdateResourceFlavor(log, &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: each.Flavor}})
			}
		}
	}
	for _, c := range in.Cohorts {
		must(made.AddOrUpdateCohort(c.object()))
	}
	for _, q := range in.Queues {
		must(made.AddClusterQueue(ctx, q.object()))
	}
	for _, j := range in.Admitted {
		if !made.AddOrUpdateWorkload(log, api.workloads[j.Name].DeepCopy()) {
			panic("not added: " + j.Name)
		}
	}
	return made
}

func flavorsIn(assignment map[corev1.ResourceName]kueue.ResourceFlavorReference) map[string]string {
	made := map[string]string{}
	for name, flavor := range assignment {
		made[string(name)] = string(flavor)
	}
	return made
}

func (in input) nominate(ctx context.Context, j job) nomination {
	log := ctrl.LoggerFrom(ctx)
	api := in.server()
	snapshot, err := in.cache(ctx, api).Snapshot(ctx)
	must(err)
	info := workload.NewInfo(api.workloads[j.Name])
	info.ClusterQueue = kueue.ClusterQueueReference(j.Queue)
	ordering := workload.Ordering{PodsReadyRequeuingTimestamp: config.EvictionTimestamp}
	preemptor := preemption.New(api, ordering, &record.FakeRecorder{}, in.fairSharing(), false, clock.RealClock{}, nil)
	assigner := flavorassigner.New(
		info, snapshot.ClusterQueue(info.ClusterQueue), snapshot.ResourceFlavors, in.Fair, preemption.NewOracle(preemptor, snapshot), nil,
	)
	assignment := assigner.Assign(log, nil)
	mode := assignment.RepresentativeMode()
	made := nomination{Mode: mode.String(), Flavors: map[string]string{}, Targets: []target{}}
	if mode == flavorassigner.NoFit {
		return made
	}
	made.Borrowing, made.Pending = assignment.Borrows(), assignment.LastState.PendingFlavors()
	for _, set := range assignment.PodSets {
		for name, flavor := range set.Flavors {
			made.Flavors[string(name)] = string(flavor.Name)
		}
	}
	if mode == flavorassigner.Preempt {
		for _, t := range preemptor.GetTargets(log, *info, assignment, snapshot) {
			made.Targets = append(made.Targets, target{t.WorkloadInfo.Obj.Name, t.Reason})
		}
	}
	slices.SortFunc(made.Targets, func(a, b target) int { return strings.Compare(a.Workload, b.Workload) })
	return made
}

func names(dump map[kueue.ClusterQueueReference][]workload.Reference) []string {
	made := []string{}
	for _, each := range dump {
		for _, reference := range each {
			made = append(made, strings.TrimPrefix(string(reference), namespace+"/"))
		}
	}
	slices.Sort(made)
	return made
}

func (in input) cycle(ctx context.Context) cycle {
	log := ctrl.LoggerFrom(ctx)
	api := in.server()
	cache := in.cache(ctx, api)
	queues := qcache.NewManager(api, cache)
	for _, c := range in.Cohorts {
		queues.AddOrUpdateCohort(ctx, c.object())
	}
	for _, q := range in.Queues {
		must(queues.AddClusterQueue(ctx, q.object()))
		must(queues.AddLocalQueue(ctx, &kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Name: q.Name, Namespace: namespace},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(q.Name)},
		}))
	}
	for _, j := range in.Pending {
		must(queues.AddOrUpdateWorkload(log, api.workloads[j.Name].DeepCopy()))
	}
	s := scheduler.New(queues, cache, api, &record.FakeRecorder{}, scheduler.WithFairSharing(in.fairSharing()))
	var writes sync.WaitGroup
	setWrapper(s, routine.NewWrapper(func() { writes.Add(1) }, writes.Done))
	schedule(s, ctx)
	writes.Wait()
	made := cycle{Admitted: map[string]map[string]string{}, Evicted: []eviction{}}
	uids := map[string]string{}
	for _, j := range in.Pending {
		uids[j.UID] = j.Name
	}
	for _, w := range api.written {
		preempted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadPreempted)
		if preempted != nil && preempted.Status == metav1.ConditionTrue {
			_, rest, _ := strings.Cut(preempted.Message, "(UID: ")
			uid, _, _ := strings.Cut(rest, ",")
			made.Evicted = append(made.Evicted, eviction{w.Name, uids[uid], preempted.Reason})
		} else if w.Status.Admission != nil {
			made.Admitted[w.Name] = flavorsIn(w.Status.Admission.PodSetAssignments[0].Flavors)
		}
	}
	slices.SortFunc(made.Evicted, func(a, b eviction) int { return strings.Compare(a.Workload, b.Workload) })
	made.Heap, made.Inadmissible = names(queues.Dump()), names(queues.DumpInadmissible())
	return made
}

func (in input) decide(ctx context.Context) (made answer) {
	defer func() {
		if problem := recover(); problem != nil {
			made = answer{Panic: fmt.Sprint(problem)}
		}
	}()
	made.Nominations = map[string][]json.RawMessage{}
	add := func(to []json.RawMessage, value any) []json.RawMessage {
		text, err := json.Marshal(value)
		must(err)
		for _, known := range to {
			if string(known) == string(text) {
				return to
			}
		}
		return append(to, text)
	}
	for range attempts {
		for _, j := range in.Pending {
			made.Nominations[j.Name] = add(made.Nominations[j.Name], in.nominate(ctx, j))
		}
		made.Cycles = add(made.Cycles, in.cycle(ctx))
	}
	return made
}

func main() {
	ctrl.SetLogger(logr.Discard())
	ctx := ctrl.LoggerInto(context.Background(), logr.Discard())
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		var in input
		must(json.Unmarshal(lines.Bytes(), &in))
		text, err := json.Marshal(in.decide(ctx))
		must(err)
		out.Write(append(text, '\n'))
	}
	must(lines.Err())
}
