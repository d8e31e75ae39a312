"""Kueue's kinds of API objects, and the labels by which a Job names its queue and its priority class."""

from __future__ import annotations

from seatrial.kube.resources import Resource

GROUP, VERSION = "kueue.x-k8s.io", "v1beta2"
FLAVORS = Resource(GROUP, VERSION, "resourceflavors", "ResourceFlavor", namespaced=False)
TOPOLOGIES = Resource(GROUP, VERSION, "topologies", "Topology", namespaced=False)
COHORTS = Resource(GROUP, VERSION, "cohorts", "Cohort", namespaced=False)
CLUSTER_QUEUES = Resource(GROUP, VERSION, "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUES = Resource(GROUP, VERSION, "localqueues", "LocalQueue")
WORKLOADS = Resource(GROUP, VERSION, "workloads", "Workload")
WORKLOAD_PRIORITY_CLASSES = Resource(
    GROUP, VERSION, "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False
)

RUNS = "None"  # the stop policy of a queue that admits
QUEUE = "seatrial"  # of a scenario without queues
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
HOSTNAME = "kubernetes.io/hostname"
