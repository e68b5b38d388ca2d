import time
def test_x():
    from tests.unit.test_hostile import inputs, variable_of
    from tests.support.hostile import made, refused
    t=time.time(); n=taken=0
    out=open('/tmp/w/slice.log','w')
    for i,(what,kind,world) in enumerate(inputs()):
        if what not in ("host","deployment") and (i*7)%16: continue
        n+=1
        try:
            if refused(world): continue
            if what.startswith("monitoring"): continue
            f, r = made(world, variable_of(what))
            taken += not r
            print("taken" if not r else "refused later", what, kind, file=out)
        except Exception as e:
            import traceback
            tb=traceback.extract_tb(e.__traceback__)[-1]
            print("RAW", what, kind, type(e).__name__, str(e)[:150], tb.filename[-40:], tb.lineno, file=out, flush=True)
    print("DONE", n, taken, time.time()-t, file=out, flush=True)
