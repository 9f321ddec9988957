package topicsync
import ("testing";"time";"fmt";"lockstep/internal/kafkatest";"github.com/twmb/franz-go/pkg/kmsg")
func TestTmpScale(t *testing.T){
	src,dst:=kafkatest.FakePair(t)
	for i:=0;i<10;i++{
		req:=kmsg.NewPtrCreateTopicsRequest()
		for j:=0;j<1000;j++{ rt:=kmsg.NewCreateTopicsRequestTopic(); rt.Topic=fmt.Sprintf("topic-%d-%d",i,j); rt.NumPartitions=1; rt.ReplicationFactor=1; req.Topics=append(req.Topics,rt)}
		if _,err:=req.RequestWith(t.Context(),src.Admin());err!=nil{t.Fatal(err)}
	}
	s,b:=syncer(t,src,dst,nil)
	for i:=0;i<20;i++{
	a:=time.Now()
	open,err:=s.once(t.Context())
	t.Log(time.Since(a),open,err,len(b.lanes()))
	}
}
