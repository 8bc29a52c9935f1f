// Chat templates in the style of each model family. They render calls as the vendors' templates do; everything else was
// written for these tests.

/** Hy3 and Hy4: all markers share a suffix, which the template inserts. */
function hunyuan(suffix: string, line: string, separated: boolean): string {
  const tag = (name: string): string => `{{ "<${name}{}>".format(HYTK) }}`;
  return (
    `{% set HYTK = '${suffix}' %}${tag('tool_calls')}${line}{% for c in m.tool_calls %}${tag('tool_call')}{{ c.function.name }}${separated ? tag('tool_sep') : ''}${line}` +
    `{% for k, v in c.function.arguments | items %}${tag('arg_key')}{{ k }}${tag('/arg_key')}${line}${tag('arg_value')}{{ v if v is string else v | tojson }}${tag('/arg_value')}${line}{% endfor %}` +
    `${tag('/tool_call')}${line}{% endfor %}${tag('/tool_calls')}`
  );
}

/** How each family renders the calls in a message, without the message's own markers. */
const written: Readonly<Record<string, string>> = {
  hermes:
    '{% for c in m.tool_calls %}<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>\n{% endfor %}',
  xml: '{% for c in m.tool_calls %}\n<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n{{ v if v is string else v | tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %}',
  seed: '{% for c in m.tool_calls %}<seed:tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments | items %}<parameter={{ k }}>{{ v if v is string else v | tojson }}</parameter>\n{% endfor %}</function>\n</seed:tool_call>{% endfor %}',
  glm: '{% for c in m.tool_calls %}\n<tool_call>{{ c.function.name }}\n{% for k, v in c.function.arguments | items %}<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v if v is string else v | tojson }}</arg_value>\n{% endfor %}</tool_call>{% endfor %}',
  'glm-tight':
    '{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}{% for k, v in c.function.arguments | items %}<arg_key>{{ k }}</arg_key><arg_value>{{ v if v is string else v | tojson }}</arg_value>{% endfor %}</tool_call>{% endfor %}',
  mistral:
    '[TOOL_CALLS] [{% for c in m.tool_calls %}{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}{{ ", " if not loop.last }}{% endfor %}]',
  'mistral-named':
    '{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}{% endfor %}',
  'mistral-numbered':
    '{% for c in m.tool_calls %}{% if c.id | length != 9 %}{{ raise_exception("ids have 9 characters") }}{% endif %}[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments | tojson }}{% endfor %}',
  kimi: '<|tool_calls_section_begin|>{% for c in m.tool_calls %}<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>',
  deepseek:
    '<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}<｜tool▁call▁begin｜>{{ c.function.name }}<｜tool▁sep｜>{{ c.function.arguments }}<｜tool▁call▁end｜>{% endfor %}<｜tool▁calls▁end｜>',
  'deepseek-fenced':
    '<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}{{ "\\n" if not loop.first }}<｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ c.function.name }}\n```json\n{{ c.function.arguments }}\n```<｜tool▁call▁end｜>{% endfor %}<｜tool▁calls▁end｜>',
  dsml: '\n\n<｜DSML｜function_calls>{% for c in m.tool_calls %}{{ "\\n" }}<｜DSML｜invoke name="{{ c.function.name }}">\n{% for k, v in c.function.arguments | items %}{{ "\\n" if not loop.first }}<｜DSML｜parameter name="{{ k }}" string="{{ "true" if v is string else "false" }}">{{ v if v is string else v | tojson }}</｜DSML｜parameter>{% endfor %}{{ "\\n" }}</｜DSML｜invoke>{% endfor %}{{ "\\n" }}</｜DSML｜function_calls>',
  minimax:
    '\n<minimax:tool_call>\n{% for c in m.tool_calls %}<invoke name="{{ c.function.name }}">\n{% for k, v in c.function.arguments | items %}<parameter name="{{ k }}">{{ v if v is string else v | tojson }}</parameter>\n{% endfor %}</invoke>\n{% endfor %}</minimax:tool_call>',
  'minimax-m3':
    '{% set ns = "]<]minimax[>[" %}{% macro inner(v, ns) %}{% if v is mapping %}{% for k, w in v.items() if w is not none %}{{ ns }}<{{ k }}>{{ inner(w, ns) }}{{ ns }}</{{ k }}>{% endfor %}{% elif v is iterable and v is not string %}{% for w in v %}{{ ns }}<item>{{ inner(w, ns) }}{{ ns }}</item>{% endfor %}{% elif v is none %}{% elif v is boolean %}{{ v | tojson }}{% else %}{{ v }}{% endif %}{% endmacro %}{{ ns }}<tool_call>\n{% for c in m.tool_calls %}{{ ns }}<invoke name="{{ c.function.name }}">{% for k, v in c.function.arguments.items() if v is not none %}{{ ns }}<{{ k }}>{{ inner(v, ns) }}{{ ns }}</{{ k }}>{% endfor %}{{ ns }}</invoke>{{ "\n" }}{% endfor %}{{ ns }}</tool_call>',
  minicpm:
    '{% for c in m.tool_calls %}{{ "\\n" if not loop.first }}<function name="{{ c.function.name }}">{% for k, v in c.function.arguments | items %}<param name="{{ k }}">{% set text = v if v is string else v | tojson %}{% if "<" in text or "&" in text or "\\n" in text %}<![CDATA[{{ text }}]]>{% else %}{{ text }}{% endif %}</param>{% endfor %}</function>{% endfor %}',
  hunyuan: hunyuan(':opensource', '\n', true),
  'hunyuan-tight': hunyuan(':6124c78e', '', false),
  gemma:
    '{% macro value(v) %}{% if v is string %}<|"|>{{ v }}<|"|>{% elif v is mapping %}{ {%- for k, w in v | items %}{{ k }}:{{ value(w) }}{{ "," if not loop.last }}{% endfor -%} }{% elif v is boolean or v is number %}{{ v | tojson }}{% elif v is none %}null{% else %}[{% for w in v %}{{ value(w) }}{{ "," if not loop.last }}{% endfor %}]{% endif %}{% endmacro %}{% for c in m.tool_calls %}<|tool_call>call:{{ c.function.name }}{{ value(c.function.arguments) }}<tool_call|>{% endfor %}',
  pythonic:
    '<|tool_call_start|>[{% for c in m.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments | items %}{{ k }}={{ "None" if v is none else "True" if v is boolean and v else "False" if v is boolean else v | tojson }}{{ ", " if not loop.last }}{% endfor %}){{ ", " if not loop.last }}{% endfor %}]<|tool_call_end|>',
  command:
    '<|START_ACTION|>[\n{% for c in m.tool_calls %}    {"tool_call_id": "{{ loop.index0 }}", "tool_name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}{{ "," if not loop.last }}\n{% endfor %}]<|END_ACTION|>',
  'command-plus':
    '{{ "\\n" }}Action:\n```json\n[\n{% for c in m.tool_calls %}    {\n        "tool_name": "{{ c.function.name }}",\n        "parameters": {{ c.function.arguments | tojson(indent=4) | indent(8) }}\n    }{{ ",\n" if not loop.last }}{% endfor %}{{ "\\n" }}]```\n',
  apertus:
    '<|tools_prefix|>[{% for c in m.tool_calls %}{"{{ c.function.name }}": {{ c.function.arguments | tojson }}}{{ ", " if not loop.last }}{% endfor %}]<|tools_suffix|>',
  gigachat:
    '{% if m.tool_calls | length > 1 %}{{ raise_exception("one call at a time") }}{% endif %}{% for c in m.tool_calls %}<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}{% endfor %}',
  'gigachat-marked':
    '{% if m.tool_calls | length > 1 %}{{ raise_exception("one call at a time") }}{% endif %}{% for c in m.tool_calls %}<|function_call|>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}{% endfor %}',
  functionary:
    '{% for c in m.tool_calls %}<function={{ c.function.name }}>{{ c.function.arguments | tojson }}</function>{% endfor %}',
  nemotron:
    '<TOOLCALL>[{% for c in m.tool_calls %}{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}{{ ", " if not loop.last }}{% endfor %}]</TOOLCALL>',
  granite:
    '<|tool_call|>[{% for c in m.tool_calls %}{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}{{ ", " if not loop.last }}{% endfor %}]',
  phi: '<|tool_call|>[{% for c in m.tool_calls %}{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}{{ ", " if not loop.last }}{% endfor %}]<|/tool_call|>',
  llama:
    '{% if m.tool_calls | length > 1 %}{{ raise_exception("one call at a time") }}{% endif %}{% for c in m.tool_calls %}{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}{% endfor %}',
};

const turns = (calls: string, reasoning: string): string =>
  `{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{% if m.role == "tool" %}<|result|>{{ m.tool_call_id if named is defined }}{{ m.content }}{% else %}<|{{ m.role }}|>${reasoning}{{ m.content }}{% if m.tool_calls %}${calls}{% endif %}{% endif %}<|over|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`;

const THINKING = '{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}';

/** gpt-oss: each call is a separate message, and reasoning has a different field name. */
const HARMONY_TEMPLATE =
  '<|start|>developer<|message|>{{ tools | tojson if tools }}<|end|>{% for m in messages %}{% if m.role == "tool" %}<|start|>functions.f to=assistant<|channel|>commentary<|message|>{{ m.content }}<|end|>' +
  '{% elif m.tool_calls %}{% if m.thinking %}{% if m.content %}{{ raise_exception("a text beside thinking") }}{% endif %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}' +
  '{% if m.content %}<|start|>assistant<|channel|>commentary<|message|>{{ m.content }}<|end|>{% endif %}' +
  '{% set c = m.tool_calls[0] %}<|start|>assistant to=functions.{{ c.function.name }}<|channel|>commentary json<|message|>{{ c.function.arguments | tojson }}<|call|>' +
  '{% elif m.role == "assistant" %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>' +
  '{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}' +
  '{# <|channel|>analysis<|message|> #}';

/** Solar Open: separate kinds of messages for content, calls and reasoning. */
const SOLAR_TEMPLATE =
  '<|begin|>system<|content|>{{ tools | tojson if tools }}<|end|>{% for m in messages %}{% if m.role == "tool" %}<|begin|>tool<|tool_response|>{{ m.tool_call_id }}{{ m.content }}<|end|>' +
  '{% elif m.role == "assistant" %}{% if m.reasoning %}<|begin|>assistant<|think|>{{ m.reasoning }}<|end|>{% endif %}' +
  '{% if m.tool_calls %}<|begin|>assistant<|tool_calls|>{% for c in m.tool_calls %}<|tool_call:begin|>{{ c.id }}<|tool_call:name|>{{ c.function.name }}<|tool_call:args|>{{ c.function.arguments | tojson }}<|tool_call:end|>{% endfor %}<|calls|>' +
  '{% else %}<|begin|>assistant<|content|>{{ m.content }}<|end|>{% endif %}' +
  '{% else %}<|begin|>{{ m.role }}<|content|>{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|begin|>assistant{% endif %}';

/** Functionary 3.2: text has a recipient, like a call, and the prompt ends with a recipient marker. */
const RECIPIENTS_TEMPLATE =
  '{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|{{ m.role }}|>\n{% if m.role == "assistant" %}' +
  '{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}{% if m.content %}>>>all\n{{ m.content }}{% endif %}{% for c in m.tool_calls or [] %}>>>{{ c.function.name }}\n{{ c.function.arguments }}{% endfor %}' +
  '{% else %}{{ m.content }}{% endif %}<|over|>{% endfor %}{% if add_generation_prompt %}<|assistant|>\n>>>{% endif %}';

export const templates: Readonly<Record<string, string>> = {
  ...Object.fromEntries(Object.entries(written).map(([name, calls]) => [name, turns(calls, THINKING)])),
  harmony: HARMONY_TEMPLATE,
  solar: SOLAR_TEMPLATE,
  'functionary-named': RECIPIENTS_TEMPLATE,
};
