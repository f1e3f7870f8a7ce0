/*
 * Licensed under the Apache License, Version 2.0 (the "License"); you may
 * not use this file except in compliance with the License. You may obtain
 * a copy of the License at
 *
 *      http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
 * WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
 * License for the specific language governing permissions and limitations
 * under the License.
 */

/*
 * The host accepts the extended state of a processor (XSAVE) only as a whole.
 * The guest's kernel has room for the state up to AVX-512, and sets only that.
 * Nothing in the guest can use what a newer processor has after it, such as
 * AMX. That part is therefore in its initial state: zeros.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

typedef long (*ptrace_t)(int, int, void *, void *);

/* Not on the stack: the guest's kernel calls this, and its stack is small. */
static char whole[1 << 16];
static size_t size;

static int find_size(ptrace_t real, int process, void *kind)
{
    struct iovec all = { whole, sizeof whole };

    if (real(PTRACE_GETREGSET, process, kind, &all) < 0)
        return -1;
    size = all.iov_len;
    return 0;
}

static long set(ptrace_t real, int process, void *kind, struct iovec *known)
{
    struct iovec all = { whole, 0 };

    if (!size && find_size(real, process, kind) < 0)
        return -1;
    if (known->iov_len >= size)
        return real(PTRACE_SETREGSET, process, kind, known);
    memset(whole, 0, size);
    memcpy(whole, known->iov_base, known->iov_len);
    all.iov_len = size;
    return real(PTRACE_SETREGSET, process, kind, &all);
}

long ptrace(enum __ptrace_request request, ...)
{
    static ptrace_t real;
    int process;
    void *address, *data;
    va_list rest;

    va_start(rest, request);
    process = va_arg(rest, int);
    address = va_arg(rest, void *);
    data = va_arg(rest, void *);
    va_end(rest);
    if (!real)
        real = (ptrace_t)dlsym(RTLD_NEXT, "ptrace");
    if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE)
        return set(real, process, address, data);
    return real(request, process, address, data);
}
