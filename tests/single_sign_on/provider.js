// A certified OpenID Connect provider for tests: node provider.js PORT CALLBACK LOGOUT KEYS PEOPLE
// KEYS is a JSON Web Key Set, PEOPLE a file with the claims of each account, which is read again each time.
import { readFileSync } from 'node:fs'
import { Provider } from 'oidc-provider'

const [port, callback, logout, keys, people] = process.argv.slice(2)
const issuer = `http://127.0.0.1:${port}`

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'relaydeck',
    client_secret: 'a secret of the test',
    redirect_uris: [callback],
    post_logout_redirect_uris: [callback.replace('/sso/callback', '/sign-in')],
    grant_types: ['authorization_code', 'refresh_token'],
    id_token_signed_response_alg: 'ES256',
    backchannel_logout_uri: logout,
    backchannel_logout_session_required: true
  }],
  jwks: JSON.parse(keys),
  cookies: { keys: ['test'] },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
  scopes: ['openid', 'offline_access', 'email', 'groups'],
  conformIdTokenClaims: false,
  features: { devInteractions: { enabled: true }, backchannelLogout: { enabled: true } },
  findAccount: (_, id) => {
    const claims = JSON.parse(readFileSync(people, 'utf8'))[id]
    return claims && { accountId: id, claims: () => ({ sub: id, ...claims }) }
  },
  renderError: (ctx, out) => { ctx.body = out },
  // Without its dispatcher, which refuses addresses of this machine.
  fetch: (url, { method, headers, body }) => fetch(url, { method, headers, body })
})
provider.listen(Number(port), '127.0.0.1', () => console.log('ready'))
