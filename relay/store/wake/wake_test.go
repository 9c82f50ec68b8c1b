package wake

import "testing"

func TestAWakeReachesEveryWatcherOfItsTopicOnly(t *testing.T) {
	var topics Topics
	a, stopA := topics.Watch("x")
	b, stopB := topics.Watch("x")
	other, stopOther := topics.Watch("y")
	topics.Wake("x", "nobody watches this")
	<-a
	<-b
	select {
	case <-other:
		t.Fatal("a watcher of y was woken by x")
	default:
	}
	stopA()
	stopB()
	stopOther()
	if len(topics.watched) != 0 {
		t.Fatalf("%d topics are still held after every watcher left", len(topics.watched))
	}
}

func TestLeavingTwiceDoesNotTakeAnotherWatchersPlace(t *testing.T) {
	var topics Topics
	_, stop := topics.Watch("x")
	b, stopB := topics.Watch("x")
	defer stopB()
	stop()
	stop()
	topics.Wake("x")
	<-b
}

func TestAWatchAfterAWakeWaitsForTheNextOne(t *testing.T) {
	var topics Topics
	old, stop := topics.Watch("x")
	topics.Wake("x")
	<-old
	next, stopNext := topics.Watch("x")
	defer stopNext()
	stop() // the watcher of the earlier change leaves late
	topics.Wake("x")
	<-next
}
