// The keys that the server honors without a visible effect on the prompt, by call and by the test or rule that covers
// them. `{a,b}` expands to both names. There are no other wildcards: each path names one key, so that a new key is not
// covered by accident.
import type { Call } from './types.js';

type Table = Readonly<Record<string, readonly string[]>>;

/**
 * Members with the same meaning wherever they occur. The prefix cache is always on, so a cache mark with the default
 * lifetime changes nothing. The model is the only caller of tools. Both rules are tested in
 * test/e2e/ignored-fields.test.ts.
 */
export const honouredAnywhere: readonly string[] = [
  'cache_control[ephemeral]',
  'cache_control[ephemeral].ttl',
  'prompt_cache_breakpoint.mode',
  'caller[direct]',
  'allowed_callers',
];

/** Headers that the SDKs take as members of the request. */
export const sentAsHeaders: readonly string[] = ['betas'];

const chat: Table = {
  'test/e2e/stored-chat.test.ts: stored completions': ['store'],
  'test/e2e/openai-client.test.ts: model, length, streams and stop strings': [
    'model',
    '{max_tokens,max_completion_tokens,n,stop,stream,modalities}',
    'stream_options.include_usage',
  ],
  'test/protocol/chat-parse.test.ts: sampling and log probabilities': [
    '{temperature,top_p,seed,frequency_penalty,presence_penalty,logit_bias,logprobs,top_logprobs,reasoning_effort}',
  ],
  'test/e2e/chat-rows.test.ts: metadata and end users; the response reports the service tier `default`': [
    '{metadata,user,safety_identifier,service_tier}',
  ],
  'the prefix cache is always on, kept in memory and not partitioned by key': [
    '{prompt_cache_key,prompt_cache_retention,prompt_cache_options.mode,prompt_cache_options.ttl}',
  ],
  'test/e2e/structured.test.ts: output formats and grammars': [
    'response_format[text]',
    'response_format[json_schema].json_schema.{name,schema,strict}',
    'tools[function].function.strict',
    'tools[custom].custom.format[text]',
    'tools[custom].custom.format[grammar].grammar.definition',
  ],
  'test/e2e/chat-tools.test.ts, test/e2e/custom-tools.test.ts: tool choice and call IDs': [
    '{parallel_tool_calls,tool_choice}',
    'tool_choice[{allowed_tools,function,custom}]',
    'tool_choice[allowed_tools].allowed_tools.{mode,tools}',
    'tool_choice[function].function.name',
    'tool_choice[custom].custom.name',
    'messages[assistant].tool_calls[{function,custom}].id',
    'messages[tool].tool_call_id',
  ],
  'test/protocol/chat-parse.test.ts: names are passed to the chat template': [
    'messages[{developer,system,user,assistant}].name',
  ],
  'test/e2e/prediction.test.ts': [
    'prediction[content]',
    'prediction[content].content',
    'prediction[content].content[text]',
    'prediction[content].content[text].text',
  ],
  'test/e2e/images.test.ts: images': [
    'messages[user].content[image_url]',
    'messages[user].content[image_url].image_url.{url,detail}',
  ],
};

const completions: Table = {
  'test/e2e/completions.test.ts': [
    '{model,max_tokens,n,best_of,echo,logprobs,stop,stream,user,seed,temperature,top_p,logit_bias}',
    '{frequency_penalty,presence_penalty}',
    'stream_options.include_usage',
  ],
};

const decisions: Table = {
  'test/e2e/decisions.test.ts': [
    '{model,safety_identifier}',
    'questions[{predicate,choice,score}].name',
    ...[
      'input[message,user].content',
      'input[{function_call_output,custom_tool_call_output}].output',
      'questions[{predicate,choice,score}].instructions',
    ].flatMap((path) => [`${path}[input_image]`, `${path}[input_image].{image_url,detail}`]),
  ],
  'IDs and statuses describe the items of a history': [
    'input[{function_call,function_call_output,custom_tool_call,custom_tool_call_output}].{id,call_id,status}',
    'input[message,assistant].phase',
  ],
  'the prefix cache is always on, kept in memory and not partitioned by key': [
    '{prompt_cache_key,prompt_cache_options.mode,prompt_cache_options.ttl}',
  ],
};

const HOSTED_WITH_STATUS = 'apply_patch_call,computer_call,computer_call_output,local_shell_call';
const ITEMS =
  'agent_message,apply_patch_call,apply_patch_call_output,code_interpreter_call,compaction,computer_call,' +
  'computer_call_output,custom_tool_call,custom_tool_call_output,file_search_call,function_call,function_call_output,' +
  'image_generation_call,local_shell_call,local_shell_call_output,mcp_approval_request,mcp_approval_response,mcp_call,' +
  'mcp_list_tools,reasoning,shell_call,shell_call_output,tool_search_call,tool_search_output,web_search_call';
const CALLS =
  'apply_patch_call,apply_patch_call_output,computer_call,computer_call_output,custom_tool_call,' +
  'custom_tool_call_output,function_call,function_call_output,local_shell_call,shell_call,shell_call_output,' +
  'tool_search_call,tool_search_output';
const toolLists = ['tools', 'input[additional_tools,developer].tools'];
const annotation = (type: string, members: string): string[] => {
  const path = `input[message,assistant].content[output_text].annotations[${type}]`;
  return [path, `${path}.{${members}}`];
};

const responses: Table = {
  'test/e2e/responses-create.test.ts: settings, which the response repeats': [
    '{model,max_output_tokens,max_tool_calls,metadata,stream,temperature,top_logprobs,top_p,truncation}',
    '{safety_identifier,user,service_tier,store,background,include}',
    'reasoning.{effort,summary,generate_summary,context}',
  ],
  'test/e2e/responses-stored-chain.test.ts, test/e2e/responses-compact.test.ts: stored responses, items, summaries': [
    'input[{compaction,item_reference}]',
    'input[item_reference].id',
    'input[compaction].encrypted_content',
  ],
  'the prefix cache is always on, kept in memory and not partitioned by key': [
    '{prompt_cache_key,prompt_cache_retention}',
    'prompt_cache_options.{mode,prewarm,ttl}',
  ],
  'test/e2e/cache-diagnostics.test.ts': ['prompt_cache_options.comparison_response_id'],
  'test/protocol/responses-parse.test.ts: output formats and grammars': [
    'text.format[text]',
    'text.format[json_schema].{name,strict}',
    ...toolLists
      .flatMap((path) => [path, `${path}[namespace].tools`])
      .flatMap((path) => [
        `${path}[function].strict`,
        `${path}[custom].format[text]`,
        `${path}[custom].format[grammar].definition`,
      ]),
  ],
  'test/protocol/responses-parse.test.ts: tool choice': [
    '{parallel_tool_calls,tool_choice}',
    'tool_choice[{allowed_tools,function,custom}]',
    'tool_choice[allowed_tools].{mode,tools}',
    'tool_choice[{function,custom}].name',
  ],
  'test/e2e/images.test.ts, test/e2e/vision.test.ts: images': [
    'input[message,user].content[input_image]',
    'input[message,user].content[input_image].{image_url,detail}',
    'input[{function_call_output,custom_tool_call_output}].output[input_image]',
    'input[{function_call_output,custom_tool_call_output}].output[input_image].{image_url,detail}',
  ],
  'test/protocol/responses-input.test.ts: IDs, statuses and phases link and describe the items of a history': [
    `input[{${ITEMS}}].id`,
    `input[{${CALLS}}].call_id`,
    'input[function_call_output].name',
    'input[{mcp_approval_response,mcp_call}].approval_request_id',
    `input[{${HOSTED_WITH_STATUS},function_call,function_call_output,local_shell_call_output,reasoning}].status`,
    'input[{shell_call,shell_call_output,tool_search_call,tool_search_output}].status',
    'input[message,{user,system,developer,assistant}].status',
    'input[message,assistant].{id,phase}',
  ],
  'the model has read the text that these members annotate': [
    ...annotation('file_citation', 'file_id,filename,index'),
    ...annotation('url_citation', 'end_index,start_index,title,url'),
    ...annotation('container_file_citation', 'container_id,end_index,file_id,filename,start_index'),
    ...annotation('file_path', 'file_id,index'),
    'input[message,assistant].content[output_text].logprobs.{bytes,logprob,token}',
    'input[message,assistant].content[output_text].logprobs.top_logprobs.{bytes,logprob,token}',
  ],
  'test/protocol/hosted-text.test.ts: shown as text, but the sample has nothing to compare with': [
    'input[computer_call_output]',
    'input[shell_call_output].output.outcome[timeout]',
    'input[tool_search_output].tools[{apply_patch,code_interpreter,computer,local_shell,programmatic_tool_calling,shell}]',
    'input[image_generation_call].error.type',
    'input[mcp_approval_response].approve',
  ],
};

const RESULTS =
  'advisor_tool_result,bash_code_execution_tool_result,code_execution_tool_result,mcp_tool_result,' +
  'text_editor_code_execution_tool_result,tool_search_tool_result,web_fetch_tool_result,web_search_tool_result';
const hosted = 'messages[{user,assistant}].content';
const contents = ['messages[user].content', 'messages[user].content[tool_result].content'];
const images = [...contents, ...contents.map((path) => `${path}[document].source[content].content`)].map(
  (path) => `${path}[image]`,
);

const clearing = 'context_management.edits[clear_tool_uses_20250919]';
const compaction = 'context_management.edits[compact_20260112]';

const messages: Table = {
  'test/e2e/cache-diagnostics.test.ts': ['diagnostics.previous_message_id'],
  'test/e2e/mcp-messages.test.ts: x-ignored-tools lists them if the server uses no MCP servers': [
    'mcp_servers[url]',
    'mcp_servers[url].{name,url,authorization_token}',
    'mcp_servers[url].tool_configuration.{allowed_tools,enabled}',
  ],
  'test/e2e/messages-context.test.ts: the limits and the summary are longer than the sample': [
    clearing,
    `${clearing}.{clear_tool_inputs,exclude_tools}`,
    `${clearing}.{clear_at_least,trigger}[input_tokens]`,
    `${clearing}.{clear_at_least,trigger}[input_tokens].value`,
    `${clearing}.{keep,trigger}[tool_uses]`,
    `${clearing}.{keep,trigger}[tool_uses].value`,
    compaction,
    `${compaction}.{instructions,pause_after_compaction}`,
    `${compaction}.trigger[input_tokens]`,
    `${compaction}.trigger[input_tokens].value`,
  ],
  'test/e2e/anthropic-client.test.ts, test/protocol/messages-parse.test.ts: settings': [
    '{model,max_tokens,stop_sequences,stream,service_tier,speed,metadata.user_id,output_config.effort}',
  ],
  'test/protocol/messages-parse.test.ts, test/protocol/foreign-thinking.test.ts: thinking': [
    'thinking[disabled]',
    'thinking[enabled].budget_tokens',
    'thinking[{enabled,adaptive}].display',
    'thinking[{enabled,adaptive}].block_binding.prefix_mismatch_behavior',
  ],
  'test/protocol/messages-parse.test.ts: tools and tool choice': [
    'tool_choice[{auto,any,tool,none}]',
    'tool_choice[{auto,any,tool}].disable_parallel_tool_use',
    'tool_choice[tool].name',
    'tools[custom].{defer_loading,eager_input_streaming,strict}',
    'messages[assistant].content[tool_use].id',
    'messages[user].content[tool_result].tool_use_id',
  ],
  'test/e2e/images.test.ts: images, whose format the server detects': [
    'messages[user].content[image]',
    ...contents.map((path) => `${path}[document].source[content].content[image]`),
    ...images.flatMap((path) => [
      `${path}.source[{base64,url}]`,
      `${path}.source[base64].{data,media_type}`,
      `${path}.source[url].url`,
    ]),
  ],
  'test/protocol/messages-parse.test.ts: IDs link the calls and results of hosted tools, which are in order': [
    `${hosted}[{server_tool_use,mcp_tool_use}].id`,
    `${hosted}[{${RESULTS}}].tool_use_id`,
  ],
  'only the service that encrypted these values can read them': [
    `${hosted}[advisor_tool_result].content[advisor_redacted_result]`,
    `${hosted}[advisor_tool_result].content[advisor_redacted_result].encrypted_content`,
    `${hosted}[code_execution_tool_result].content[encrypted_code_execution_result].encrypted_stdout`,
    `${hosted}[web_search_tool_result].content[web_search_result].encrypted_content`,
    'messages[assistant].content[compaction].{encrypted_content,signature}',
  ],
};

const tables: Readonly<Record<Exclude<Call, 'socket'>, Table>> = {
  chat,
  completions,
  decisions,
  responses,
  inputTokens: {
    'test/e2e/token-counts.test.ts': ['{model,parallel_tool_calls,truncation,tool_choice}'],
  },
  compact: {
    'test/e2e/responses-compact.test.ts': ['model'],
    'the prefix cache is always on, kept in memory and not partitioned by key': [
      '{prompt_cache_key,prompt_cache_retention}',
    ],
    'the response has no service tier: there is only one': ['service_tier'],
  },
  messages,
  countTokens: {
    'test/e2e/token-counts.test.ts': ['{model,speed}'],
  },
};

/** Returns the paths of a call's keys that the server honors. */
export function honouredKeys(call: Exclude<Call, 'socket'>): Set<string> {
  return new Set(Object.values(tables[call]).flatMap((paths) => paths.flatMap(expanded)));
}

/** Replaces each `{a,b}` by its parts. */
function expanded(path: string): string[] {
  const found = /^([^{]*)\{([^}]*)\}(.*)$/.exec(path);
  if (found === null) return [path];
  const [, head = '', parts = '', tail = ''] = found;
  return parts.split(',').flatMap((part) => expanded(`${head}${part}${tail}`));
}
