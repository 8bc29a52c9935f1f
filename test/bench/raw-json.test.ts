import t from 'tap';
import { compacted, membersOf } from '../../bench/lib/raw-json.js';

t.test('splits a JSON text into members without changing their text', async (t) => {
  const text = ' { "2" : 1.0 ,\n"a\\"b": [ 1e400, "x , ] } \\\\" , {"k" : [ ] } ], "1": { } , "e": "" } ';
  const whole = compacted(text);
  t.equal(whole, '{"2":1.0,"a\\"b":[1e400,"x , ] } \\\\",{"k":[]}],"1":{},"e":""}');
  const members = membersOf(whole);
  t.same(
    [...members],
    [
      ['2', '1.0'],
      ['a"b', '[1e400,"x , ] } \\\\",{"k":[]}]'],
      ['1', '{}'],
      ['e', '""'],
    ],
  );
  t.same([...membersOf(members.get('a"b')!).values()], ['1e400', '"x , ] } \\\\"', '{"k":[]}']);
  t.equal(membersOf('{}').size + membersOf('[]').size, 0);
});
