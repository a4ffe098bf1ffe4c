/* A verifier in C behind draftproof's program protocol: block verification and token by token.
 *
 *     cc -O2 -o verifier verifier.c -lm
 *     draftproof check program:./verifier
 *
 * Replace `verify` by a call of your own function; the rest reads and writes the protocol.
 * One JSON object a line comes in on standard input, one goes out on standard output.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the function under test ------------------------------------------------------------- */

/* The smallest v with w[0] + .. + w[v] > u * sum(w): never a token of weight 0. */
static int draw(const double *w, int vocab, double u) {
    double sum = 0, reached = 0;
    int last = 0;
    for (int v = 0; v < vocab; v++) sum += w[v];
    for (int v = 0; v < vocab; v++) {
        reached += w[v];
        if (w[v] > 0) last = v;
        if (reached > u * sum) return v;
    }
    return last; /* u * sum was rounded up to sum */
}

/* Writes (weight * q - p)+ to `out` and returns its sum. */
static double excess(const double *p, const double *q, double weight, int vocab, double *out) {
    double sum = 0;
    for (int v = 0; v < vocab; v++) {
        out[v] = weight * q[v] > p[v] ? weight * q[v] - p[v] : 0;
        sum += out[v];
    }
    return sum;
}

/* Verifies one draft of `length` tokens and returns the accepted length.
 *   p[i], q[i]   draft and target row after the first i tokens of the draft (q has one more)
 *   accept[i]    the uniform of the test of token i; token_uniform: of the correction or bonus
 *   next         the correction or the bonus
 */
static int verify(int block, int vocab, int length, const int *draft, double **p, double **q,
                  const double *accept, double token_uniform, int *next) {
    double *weight = malloc((length + 1) * sizeof *weight); /* of each prefix */
    double *owed = malloc(vocab * sizeof *owed);
    int accepted = 0;
    weight[0] = 1;
    for (int i = 0; i < length; i++) {
        double drafted = p[i][draft[i]];
        double ratio = drafted > 0 ? q[i][draft[i]] / drafted : 0;
        weight[i + 1] = block ? weight[i] * ratio : ratio;
        if (weight[i + 1] > 1) weight[i + 1] = 1;
    }
    if (block) { /* the deepest prefix whose own test succeeds */
        for (int i = length; i > 0; i--) {
            double h = weight[i];
            if (i < length) {
                double sum = excess(p[i], q[i], weight[i], vocab, owed);
                h = sum > 0 ? sum / (sum + 1 - weight[i]) : 0;
            }
            if (accept[i - 1] < h) {
                accepted = i;
                break;
            }
        }
    } else { /* up to the first test that fails */
        while (accepted < length && accept[accepted] < weight[accepted + 1]) accepted++;
    }
    const double *row = q[accepted];
    if (accepted < length &&
        excess(p[accepted], q[accepted], block ? weight[accepted] : 1, vocab, owed) > 0)
        row = owed;
    *next = draw(row, vocab, token_uniform);
    free(weight);
    free(owed);
    return accepted;
}

/* ---- just enough JSON --------------------------------------------------------------------- */

typedef struct value {
    char kind; /* n(ull), b(ool), d(ouble), s(tring), a(rray), o(bject) */
    double number;
    char *text;
    int size;
    struct value *items; /* elements of an array; keys and values in turn of an object */
} value;

static const char *at; /* where the parser stands */

static void space(void) { at += strspn(at, " \t\r\n"); }

static void malformed(void) {
    fprintf(stderr, "malformed JSON at: %.40s\n", at);
    exit(2);
}

static value parse(void) {
    value found = {0};
    space();
    if (*at == '{' || *at == '[') {
        char end = *at == '{' ? '}' : ']';
        found.kind = *at == '{' ? 'o' : 'a';
        at++;
        for (space(); *at != end; space()) {
            if (*at == ',' || *at == ':') at++;
            if (!*at) malformed();
            if (!(found.size & (found.size - 1))) /* grow at powers of two */
                found.items = realloc(found.items, (found.size ? 2 * found.size : 1) * sizeof found);
            found.items[found.size++] = parse();
        }
        at++;
    } else if (*at == '"') {
        const char *start = ++at;
        while (*at && *at != '"') at += *at == '\\' && at[1] ? 2 : 1; /* escapes are kept as written */
        if (!*at) malformed();
        found.kind = 's';
        found.text = strndup(start, at++ - start);
    } else if (!strncmp(at, "null", 4)) {
        found.kind = 'n', at += 4;
    } else if (!strncmp(at, "true", 4)) {
        found.kind = 'b', found.number = 1, at += 4;
    } else if (!strncmp(at, "false", 5)) {
        found.kind = 'b', at += 5;
    } else {
        char *end;
        found.kind = 'd';
        found.number = strtod(at, &end);
        if (end == at) malformed();
        at = end;
    }
    return found;
}

static void release(value *v) {
    for (int i = 0; i < v->size; i++) release(&v->items[i]);
    free(v->items);
    free(v->text);
}

static value *get(value *object, const char *key) {
    for (int i = 0; i + 1 < object->size; i += 2)
        if (!strcmp(object->items[i].text, key)) return &object->items[i + 1];
    fprintf(stderr, "the request has no %s\n", key);
    exit(2);
}

static int not_a_number; /* whether a row of this request has an entry that is null: NaN */

static double *numbers(const value *array) {
    double *out = malloc((array->size + 1) * sizeof *out);
    for (int i = 0; i < array->size; i++) {
        out[i] = array->items[i].number;
        if (array->items[i].kind != 'd') not_a_number = 1;
    }
    return out;
}

/* ---- the protocol -------------------------------------------------------------------------- */

static void answer(value *asked) {
    int id = (int)get(asked, "id")->number, vocab = (int)get(asked, "vocab")->number;
    int block = !strcmp(get(asked, "scheme")->text, "block");
    value *drafts = get(asked, "drafts");
    double token_uniform = get(asked, "token_uniform")->number;
    int length = drafts->size ? drafts->items[0].size : 0;
    int next, *draft = malloc((length + 1) * sizeof *draft);
    double **p = malloc((length + 1) * sizeof *p), **q = malloc((length + 1) * sizeof *q);
    double *accept = NULL;
    not_a_number = 0;
    for (int i = 0; i < length; i++) {
        draft[i] = (int)drafts->items[0].items[i].number;
        p[i] = numbers(&get(asked, "draft_rows")->items[0].items[i]);
    }
    for (int i = 0; i <= length; i++) /* without a draft there is still the row at the root */
        q[i] = numbers(drafts->size ? &get(asked, "target_rows")->items[0].items[i]
                                    : get(asked, "root_row"));
    if (length) accept = numbers(&get(asked, "accept_uniforms")->items[0]);
    if (not_a_number) {
        printf("{\"type\": \"error\", \"id\": %d, \"message\": \"a row has NaN\"}\n", id);
    } else {
        int accepted = verify(block, vocab, length, draft, p, q, accept, token_uniform, &next);
        printf("{\"type\": \"result\", \"id\": %d, \"accepted\": [", id);
        for (int i = 0; i < accepted; i++) printf(i ? ", %d" : "%d", draft[i]);
        printf("], \"next\": %d, \"carry\": null}\n", next);
    }
    for (int i = 0; i < length; i++) free(p[i]);
    for (int i = 0; i <= length; i++) free(q[i]);
    free(p), free(q), free(draft), free(accept);
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        at = line;
        value asked = parse();
        const char *type = get(&asked, "type")->text;
        if (!strcmp(type, "hello"))
            puts("{\"type\": \"declare\", \"protocol\": 1, \"name\": \"example in C\", "
                 "\"version\": \"1\", \"schemes\": [\"token_by_token\", \"block\"], "
                 "\"drafts\": [0, 1], \"uniforms\": true, \"ragged\": true}");
        else if (!strcmp(type, "verify"))
            answer(&asked);
        else if (!strcmp(type, "bye"))
            break;
        fflush(stdout);
        release(&asked);
    }
    free(line);
    return 0;
}
