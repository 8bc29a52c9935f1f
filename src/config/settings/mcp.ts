// Settings for the MCP servers that clients name in Responses and Messages requests.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const mcp = {
  allowed_hosts: setting(
    kind.list,
    [],
    'Hosts of MCP servers whose tools clients may use: mcp.example.com; *.example.com = all subdomains; * = any public host. If unset, MCP tools are left out and listed in x-ignored-tools.',
    { shown: 'none' },
  ),
  public_only: setting(
    kind.flag,
    true,
    'Connect to MCP servers only at public internet addresses and over https. false also allows private networks and http.',
  ),
};
