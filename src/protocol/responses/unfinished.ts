// Finishes background responses that were interrupted because their process or thread ended, using the events in their
// logs. No side effects.
import type { LogFinalizer, StoredItem } from '../../storage/response-store.js';
import type { StoredEvent } from '../../shared/stored-event.js';
import { isTerminal, terminalEvents, unbroken } from './replay.js';
import { wireUsage, type OutputItem, type ResponseResource, type WireTokenLogprob } from './resource.js';

const RESTARTED = 'The server process or thread that generated this response was restarted before it finished.';

export const unfinishedResponses: LogFinalizer = {
  fail(stored, log, usage) {
    const output = outputOf(unbroken(log, -1)); // text from events after a gap would be appended in the wrong place
    const resource: ResponseResource = {
      ...(stored.resource as unknown as ResponseResource),
      status: 'failed',
      error: { code: 'server_error', message: RESTARTED },
      output,
      usage:
        usage === null
          ? null
          : wireUsage({
              promptTokens: usage.inputTokens,
              cachedTokens: usage.cachedTokens,
              completionTokens: usage.outputTokens,
              reasoningTokens: usage.reasoningTokens,
            }),
    };
    return {
      record: {
        ...stored,
        status: 'failed',
        resource: { ...resource },
        input: [], // storage keeps the stored input
        output: output.map((item): StoredItem => ({ id: item.id, item: item as unknown as Record<string, unknown> })),
      },
      usage,
    };
  },
  missing: (stored, last) =>
    isTerminal(last) ? [] : terminalEvents(stored.resource as unknown as ResponseResource, last.sequence + 1),
};

type Data = { item: OutputItem; delta: string; logprobs?: WireTokenLogprob[] };

/** Builds the output items from the events in a log. An item that is still open at the end becomes incomplete. */
function outputOf(log: readonly StoredEvent[]): OutputItem[] {
  const output: OutputItem[] = [];
  let open: OutputItem | null = null;
  let text = '';
  let isSummary = false;
  const logprobs: WireTokenLogprob[] = [];
  for (const { type, data } of log) {
    const read = (): Data => JSON.parse(data) as Data;
    switch (type) {
      case 'response.output_item.added':
        open = read().item;
        text = '';
        isSummary = false;
        logprobs.length = 0;
        break;
      case 'response.output_item.done':
        output.push(read().item);
        open = null;
        break;
      case 'response.reasoning_summary_part.added':
        isSummary = true;
        break;
      case 'response.output_text.delta': {
        const { delta, logprobs: more = [] } = read();
        text += delta;
        logprobs.push(...more);
        break;
      }
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
      case 'response.mcp_call_arguments.delta':
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
      case 'response.reasoning.delta':
        text += read().delta;
    }
  }
  if (open !== null) output.push(cut(open, text, logprobs, isSummary));
  return output;
}

/** Returns an open item as incomplete, with its text so far. */
function cut(item: OutputItem, text: string, logprobs: WireTokenLogprob[], isSummary: boolean): OutputItem {
  const status = 'incomplete';
  switch (item.type) {
    case 'message':
      return { ...item, status, content: [{ type: 'output_text', text, annotations: [], logprobs }] };
    case 'function_call':
      return { ...item, status, arguments: text };
    case 'custom_tool_call':
      return { ...item, status, input: text };
    case 'web_search_call':
      return { ...item, status: 'failed' };
    case 'reasoning':
      return isSummary
        ? { ...item, status, summary: [{ type: 'summary_text', text }] }
        : { ...item, status, content: [{ type: 'reasoning_text', text }] };
    case 'mcp_call':
      return { ...item, status, arguments: text };
    case 'mcp_list_tools':
      return { ...item, error: RESTARTED };
    case 'mcp_approval_request':
    case 'compaction':
      return item;
  }
}
