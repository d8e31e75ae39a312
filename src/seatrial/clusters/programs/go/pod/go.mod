module seatrial.dev/pod

go 1.26
