"""Real containers for kubelets: what the machine must have, the image that we make, and containerd as a component."""
