// Tests how a model sees calls and results of hosted tools, and which members are hidden from the model.
import t from 'tap';
import { hostedText, unshownMembers } from '../../src/protocol/hosted-text.js';

const unshown = (block: object): string[] => [...unshownMembers(block)].map(({ path }) => path);

const rows: [block: { type: string } & Record<string, unknown>, text: string, unshown: string[]][] = [
  [
    { type: 'code_interpreter_call', id: 'ci_1', code: 'print(1)', outputs: [{ type: 'logs', logs: '1' }] },
    '[code_interpreter_call]\nprint(1)\n1',
    [],
  ],
  [
    { type: 'apply_patch_call', call_id: 'c', operation: { type: 'delete_file', path: 'a.txt' } },
    '[apply_patch_call]\ndelete_file\na.txt',
    [],
  ],
  [
    { type: 'apply_patch_call_output', call_id: 'c', status: 'failed', output: 'no such file' },
    '[apply_patch_call_output]\nfailed\nno such file',
    [],
  ],
  [
    {
      type: 'shell_call_output',
      output: [{ stdout: 'a', stderr: '', outcome: { type: 'timeout' } }],
      max_output_length: 9,
    },
    '[shell_call_output]\na\ntimeout',
    ['max_output_length'],
  ],
  [
    { type: 'computer_call', action: { type: 'click', x: 1, y: 2 }, pending_safety_checks: [{ id: 's', code: 'x' }] },
    '[computer_call]\n{"type":"click","x":1,"y":2}',
    ['pending_safety_checks'],
  ],
  [
    { type: 'tool_search_call', arguments: { query: 'maps' }, execution: 'server' },
    '[tool_search_call]\n{"query":"maps"}',
    ['execution'],
  ],
  [
    {
      type: 'mcp_list_tools',
      server_label: 'docs',
      tools: [
        { name: 'find', description: 'Finds pages', input_schema: { type: 'object' }, annotations: { title: 'x' } },
      ],
    },
    '[mcp_list_tools]\ndocs\nfind\nFinds pages',
    ['tools.input_schema', 'tools.annotations'],
  ],
  [
    { type: 'tool_search_output', tools: [{ type: 'function', name: 'f' }, { type: 'web_search' }] },
    '[tool_search_output]\nweb_search\nf',
    [],
  ],
  [
    { type: 'mcp_approval_response', approval_request_id: 'r', approve: false, reason: 'unsafe' },
    '[mcp_approval_response]\nfalse\nunsafe',
    [],
  ],
  [
    { type: 'image_generation_call', result: 'A'.repeat(600), size: 'auto' },
    '[image_generation_call]',
    ['result', 'size'],
  ],
  [
    {
      type: 'web_search_tool_result',
      content: [{ type: 'web_search_result', title: 'T', encrypted_content: 'x', page_age: '1' }],
    },
    '[web_search_tool_result]\nT',
    ['content.page_age'],
  ],
];

t.test('each member of a hosted call is shown or listed', (t) => {
  for (const [block, text, members] of rows) {
    t.equal(hostedText(block), text, block.type);
    t.same(unshown(block), members, block.type);
  }
  t.end();
});

t.test('members nested too deeply are listed', (t) => {
  const nested = (depth: number): object => (depth === 0 ? { text: 'x' } : { content: nested(depth - 1) });
  t.equal(hostedText({ type: 'mcp_call', ...nested(7) }), '[mcp_call]\nx');
  t.equal(hostedText({ type: 'mcp_call', ...nested(8) }), '[mcp_call]');
  t.same(unshown({ type: 'mcp_call', ...nested(7) }), []);
  t.same(unshown({ type: 'mcp_call', ...nested(8) }), [`${'content.'.repeat(8)}text`]);
  t.end();
});
