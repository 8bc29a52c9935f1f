import t from 'tap';
import { queryList } from '../../src/http/query.js';

t.test('every notation of arrays in query strings is parsed', async (t) => {
  const list = (query: string): string[] => queryList(new URLSearchParams(query), 'include');
  t.same(list('include[]=a&include[]=b'), ['a', 'b']);
  t.same(list('include=a&include=b'), ['a', 'b']);
  t.same(list('include=a,b'), ['a', 'b']);
  t.same(list('include[0]=a&include[1]=b'), ['a', 'b']);
  t.same(list('include%5B%5D=a&x=y&include=b%2Cc'), ['a', 'b', 'c']);
  t.same(list('include=&include[]=,a,'), ['a']);
  t.same(list('includes=a&include[x]=b&include[]x=c&x'), []);
});
